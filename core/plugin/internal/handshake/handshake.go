// Package handshake holds what host and SDK must agree on before the first
// call: versions, environment names and ceilings. Above it are core/plugin and
// core/plugin/host; below it is nothing.
package handshake

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// The protocol version; the header of the .proto files says the same.
const (
	Major = 1
	Minor = 3
)

// The environment of a plugin process. The cookie tells a plugin that it was
// started by a host; it is no secret and never changes.
const (
	CookieKey   = "NCZARR_PLUGIN"
	CookieValue = "5c1e64a0b7d94c0f9c9a2f0d3c7a8e51"
	// EnvRole chooses self-execution: "filters" or "driver:NAME".
	EnvRole = "NCZARR_PLUGIN_ROLE"
	// EnvDepth counts self-executions; a process that has it starts none.
	EnvDepth = "NCZARR_PLUGIN_DEPTH"
	// EnvLifeline says where the lifeline is: "stdin". Its end of file means
	// that the host is gone.
	EnvLifeline = "NCZARR_PLUGIN_LIFELINE"
	// EnvChannel is the number of the descriptor that is the channel of level
	// 1, where there is one. Its end of file means that the host is gone.
	EnvChannel = "NCZARR_PLUGIN_CHANNEL"
	// EnvSandbox is the policy that a process puts in force before anything
	// else, as JSON.
	EnvSandbox = "NCZARR_PLUGIN_SANDBOX"
	// EnvExec is the path that a process executes once its sandbox is in
	// force: the running program then is the launcher of another's plugin.
	EnvExec = "NCZARR_PLUGIN_EXEC"
	// EnvDebug makes a plugin that nobody started serve until it is
	// interrupted, and EnvReattach tells a host of it: a JSON list of
	// [Attachment].
	EnvDebug    = "NCZARR_PLUGIN_DEBUG"
	EnvReattach = "NCZARR_PLUGIN_REATTACH"
	// EnvPath lists directories with third-party plugins.
	EnvPath = "NCZARR_PLUGIN_PATH"
)

// The descriptors of level 1 in a plugin process. Others need not know them:
// EnvChannel and Configure say them.
const (
	FDRequest  = 3 // segment that the plugin can only read
	FDChannel  = 4
	FDResponse = 5 // segment that the plugin writes its answers to
)

// Attachment is where a plugin serves that its author runs.
type Attachment struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Network string `json:"network"` // "unix" or "tcp"
	Address string `json:"address"`
}

// PluginSetName is the name under which go-plugin dispenses the services.
const PluginSetName = "nczarr"

// Exit statuses of an SDK process that refuses to serve.
const (
	ExitNoCookie = 64 // not started by a host, or by one with another cookie
	ExitBadRole  = 65 // self-execution for something this program has not
	ExitServe    = 66 // the server could not start
	ExitSandbox  = 67 // the sandbox could not be put in force
)

// The ceilings of the data plane.
const (
	// MaxPart is the largest inline payload of one message. Above it the
	// copies of gRPC leave the caches, and the first byte comes later.
	MaxPart = 1 << 20
	// MaxMessage is the largest message either side accepts: the limit that
	// every gRPC implementation has unless told otherwise, so that a plugin
	// in another language need not know about it. A part and its frame fit in
	// easily, and a lying peer cannot make us allocate more than this.
	MaxMessage = 4 << 20
	// MaxBatch is the largest number of items in one message.
	MaxBatch = 1024
	// MaxPuts is the largest number of writes in one message: each may have the
	// text of an error in the answer.
	MaxPuts = 64
	// MaxObject is the largest object or decoded chunk that is carried,
	// unless Configure says less: 16 GiB.
	MaxObject = 16 << 30
	// MaxStreams is the number of calls that one plugin takes at once.
	MaxStreams = 4096
)

// BuildID identifies the running image: its build information, size and
// modification time. Two processes of one image have the same.
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

// Image gives a path that executes the running image. On Linux that is the
// image itself even when its file was replaced or removed meanwhile; elsewhere
// it is the file, and the build ids tell whether it is still the same.
func Image() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}
