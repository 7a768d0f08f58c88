// Package handshake defines the versions, environment variables and limits that the
// host and plugins share. Packages core/plugin and core/plugin/host use it.
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
	Minor = 4
)

// Environment variables of a plugin process. A plugin uses the cookie to check that a
// host started it. The cookie is not secret and never changes.
const (
	CookieKey   = "NCZARR_PLUGIN"
	CookieValue = "5c1e64a0b7d94c0f9c9a2f0d3c7a8e51"
	// EnvRole selects what a process that the host starts from its own executable serves:
	// "filters" or "driver:NAME".
	EnvRole = "NCZARR_PLUGIN_ROLE"
	// EnvDepth is set in all processes that a host starts. They must not start plugins
	// from their own executable.
	EnvDepth = "NCZARR_PLUGIN_DEPTH"
	// EnvLifeline names the stream whose end of file means that the host has exited:
	// "stdin".
	EnvLifeline = "NCZARR_PLUGIN_LIFELINE"
	// EnvChannel is the descriptor number of the level 1 channel, if a channel exists.
	// Its end of file means that the host has exited.
	EnvChannel = "NCZARR_PLUGIN_CHANNEL"
	// EnvSandbox is the sandbox policy, as JSON. The process applies the policy before
	// anything else.
	EnvSandbox = "NCZARR_PLUGIN_SANDBOX"
	// EnvExec is the path of the plugin that the process executes after applying the
	// sandbox. The process is then a launcher for a third-party plugin.
	EnvExec = "NCZARR_PLUGIN_EXEC"
	// EnvDebug makes a plugin that its author started serve until it is interrupted.
	// EnvReattach lists such plugins for a host, as a JSON array of [Attachment].
	EnvDebug    = "NCZARR_PLUGIN_DEBUG"
	EnvReattach = "NCZARR_PLUGIN_REATTACH"
	// EnvPath lists directories with third-party plugins.
	EnvPath = "NCZARR_PLUGIN_PATH"
)

// Descriptors of level 1 in a plugin process. A plugin must not rely on the values. It
// receives them in EnvChannel and Configure.
const (
	FDRequest  = 3 // segment that the plugin can only read
	FDChannel  = 4
	FDResponse = 5 // segment for the plugin's responses
)

// Attachment describes a running plugin that its author started.
type Attachment struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Network string `json:"network"` // "unix" or "tcp"
	Address string `json:"address"`
}

// PluginSetName is the name of the services in go-plugin's plugin set.
const PluginSetName = "nczarr"

// Exit statuses of a process that uses core/plugin but cannot serve.
const (
	ExitNoCookie = 64 // no host, or a host with another cookie, started the process
	ExitBadRole  = 65 // the value of EnvRole is unknown
	ExitServe    = 66 // the server could not start
	ExitSandbox  = 67 // the sandbox could not be applied
)

// Limits of the data plane.
const (
	// MaxPart is the largest inline payload of one message, in bytes. Larger messages
	// are copied more slowly, because they do not fit in the CPU caches, and their first
	// byte arrives later.
	MaxPart = 1 << 20
	// MaxMessage is the largest message that either side accepts, in bytes. It is the
	// default of every gRPC implementation, so plugins in other languages need no
	// setting. It limits the memory that a malicious peer can make the other side
	// allocate.
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

// BuildID returns an id of the running executable, computed from its build information,
// size and modification time. Two processes of the same executable have the same id.
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
