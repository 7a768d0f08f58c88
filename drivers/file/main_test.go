package file_test

import (
	"os"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
)

func TestMain(m *testing.M) {
	killpoint.Main()
	os.Exit(m.Run())
}
