package zip

import (
	"os"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// NewClosing returns an opener that behaves as on systems where an open file can be
// neither renamed nor replaced.
func NewClosing() driver.Opener { return &opener{closeToRename: true} }

// NameFlaw returns the reason why name is not a valid key, or "".
func NameFlaw(name string) string { return reasonText[classifyName([]byte(name))] }

// MakeTemp creates a temporary file of an archive, which is in use until it is closed.
func MakeTemp(dir, base string) (*os.File, error) { return makeTemp(dir, base) }

// InMemory returns the number of bytes of unflushed content in memory.
func (m *Map) InMemory() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.inMem
}
