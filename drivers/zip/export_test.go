package zip

import (
	"os"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// NewClosing gives an opener that behaves as on systems where an open file can
// be neither renamed nor replaced.
func NewClosing() driver.Opener { return &opener{closeToRename: true} }

// JudgeName gives the reason why name is no legal key, or "".
func JudgeName(name string) string { return reasonText[classifyName([]byte(name))] }

// MakeTemp makes a temporary file of an archive, in use until it is closed.
func MakeTemp(dir, base string) (*os.File, error) { return makeTemp(dir, base) }

// InMemory gives the bytes of unflushed content that are in memory.
func (m *Map) InMemory() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.inMem
}
