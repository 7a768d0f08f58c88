package file

import (
	"context"
	"os"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

var _ driver.FileLender = (*Map)(nil)

// LendFile implements driver.FileLender. Every object is a separate file.
func (m *Map) LendFile(ctx context.Context, key string) (*os.File, int64, driver.Info, error) {
	h, err := m.open(ctx, key)
	if err != nil {
		return nil, 0, driver.Info{}, err
	}
	x, err := h.stat()
	if err == nil {
		err = x.object()
	}
	if err != nil {
		h.close()
		return nil, 0, driver.Info{}, classify(err)
	}
	return h.file(key), 0, x.info(), nil
}
