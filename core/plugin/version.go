package plugin

import (
	"strconv"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
)

// ProtocolVersion returns the version of the plugin protocol as "major.minor".
func ProtocolVersion() string {
	return strconv.Itoa(handshake.Major) + "." + strconv.Itoa(handshake.Minor)
}
