package http_test

import (
	"os"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	httpdriver "github.com/seed-695719ce/nczarr/drivers/http"
)

// self allows the host to run the driver in processes of this program.
var self plugin.Self // set only by TestMain

func TestMain(m *testing.M) {
	self = plugin.Main(plugin.Builtin{Openers: []driver.Opener{httpdriver.New()}})
	os.Exit(m.Run())
}

// remote returns the driver in a separate process.
func remote(t *testing.T) driver.Opener {
	t.Helper()
	h, err := host.New(&host.Options{Self: self, Isolation: host.Process, StartTimeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(t.Context()) })
	o, err := h.Driver(httpdriver.Name)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestConformanceOverPlugin(t *testing.T) {
	t.Parallel()
	g := target(t, tagged)
	g.Opener = remote(t)
	conformance.TestWith(t, mapsuite.Suite(), g, &conformance.Options{Effort: conformance.Brief})
}
