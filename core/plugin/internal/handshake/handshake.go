// Package handshake defines the versions, environment variables and limits on which host
// and SDK must agree before the first call. Packages core/plugin and core/plugin/host use
// it.
package handshake

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// The protocol version. It must match the header of the .proto files.
const (
	Major = 1
	Minor = 3
)

// Environment variables of a plugin process. The cookie tells a plugin that a host
// started it. It is not secret and never changes.
const (
	CookieKey   = "NCZARR_PLUGIN"
	CookieValue = "5c1e64a0b7d94c0f9c9a2f0d3c7a8e51"
	// EnvRole selects what a process that the host starts from its own executable serves:
	// "filters" or "driver:NAME".
	EnvRole = "NCZARR_PLUGIN_ROLE"
	// EnvDepth is set in a process that the host starts from its own executable. Such a
	// process must not start plugins.
	EnvDepth = "NCZARR_PLUGIN_DEPTH"
	// EnvLifeline names the stream whose end of file means that the host has exited:
	// "stdin".
	EnvLifeline = "NCZARR_PLUGIN_LIFELINE"
	// EnvChannel is the descriptor number of the level 1 channel, if a channel exists.
	// The end of file of the channel means that the host has exited.
	EnvChannel = "NCZARR_PLUGIN_CHANNEL"
	// EnvSandbox is the sandbox policy, as JSON. The process applies the policy before
	// anything else.
	EnvSandbox = "NCZARR_PLUGIN_SANDBOX"
	// EnvExec is the path of the plugin that the process executes after applying the
	// sandbox. The process is then a launcher for a third-party plugin.
	EnvExec = "NCZARR_PLUGIN_EXEC"
	// EnvDebug makes a plugin that no host started serve until it is interrupted.
	// EnvReattach tells a host about such plugins: it is a JSON list of [Attachment].
	EnvDebug    = "NCZARR_PLUGIN_DEBUG"
	EnvReattach = "NCZARR_PLUGIN_REATTACH"
	// EnvPath lists directories with third-party plugins.
	EnvPath = "NCZARR_PLUGIN_PATH"
)

// Descriptors of level 1 in a plugin process. Plugins in other languages receive the
// numbers from EnvChannel and Configure.
const (
	FDRequest  = 3 // segment that the plugin can only read
	FDChannel  = 4
	FDResponse = 5 // segment for the plugin's responses
)

// Attachment is the address of a plugin that its author runs.
type Attachment struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Network string `json:"network"` // "unix" or "tcp"
	Address string `json:"address"`
}

// PluginSetName is the name under which go-plugin dispenses the services.
const PluginSetName = "nczarr"

// Exit statuses of an SDK process that does not serve.
const (
	ExitNoCookie = 64 // the process was not started by a host, or by a host with another cookie
	ExitBadRole  = 65 // EnvRole names something that this program does not have
	ExitServe    = 66 // the server could not start
	ExitSandbox  = 67 // the sandbox could not be applied
)

// Limits of the data plane.
const (
	// MaxPart is the largest inline payload of one message. Larger messages would not
	// fit in the CPU caches while gRPC copies them, and would delay the first byte.
	MaxPart = 1 << 20
	// MaxMessage is the largest message that either side accepts. It is the default of
	// every gRPC implementation, so plugins in other languages need no setting. It
	// exceeds a part with its framing, and limits what a malicious peer can make the
	// other side allocate.
	MaxMessage = 4 << 20
	// MaxBatch is the largest number of items in one message.
	MaxBatch = 1024
	// MaxPuts is the largest number of writes in one message. It is lower than MaxBatch
	// because each response may contain an error message.
	MaxPuts = 64
	// MaxObject is the largest object or decoded chunk, unless Configure sets a lower
	// limit: 16 GiB.
	MaxObject = 16 << 30
	// MaxStreams is the largest number of concurrent calls to one plugin.
	MaxStreams = 4096
)

// BuildID identifies the running executable by its build information, size and
// modification time. Two processes of the same executable have the same id.
func BuildID() string {
	h := sha256.New()
	if info, ok := debug.ReadBuildInfo(); ok {
		h.Write([]byte(info.String()))
	}
	h.Write([]byte(runtime.Version() + runtime.GOOS + runtime.GOARCH))
	if path, err := Image(); err == nil {
		if st, err := os.Stat(path); err == nil {
			h.Write([]byte(strconv.FormatInt(st.Size(), 10) + "," + strconv.FormatInt(st.ModTime().UnixNano(), 10)))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Image returns a path that executes the running program. On Linux the path refers to
// the program even if its file was replaced or removed. Elsewhere it is the path of the
// file, and build ids show whether the file has changed.
func Image() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}
