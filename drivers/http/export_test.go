package http

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// Held returns the number of buffered bytes of responses without a length.
func (m *Map) Held() int64 { return m.unsized.Load() }

// PEM returns a certificate in PEM form.
func PEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// SetDial makes a Map of the driver open its connections with dial.
func SetDial(t *testing.T, m driver.Map, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	t.Helper()
	own := m.(*Map)
	tr, err := web.New(web.Options{
		Connect: time.Duration(own.o.Connect), FirstByte: time.Duration(own.o.FirstByte), Stall: time.Duration(own.o.Stall), Dial: dial,
	})
	if err != nil {
		t.Fatal(err)
	}
	own.transport, own.client.Transport = tr, tr
}

func TestParseNetrc(t *testing.T) {
	t.Parallel()
	hosts := parseNetrc(`# a comment
machine A.example login "u \" v" password p#w account x
machine b.example
  login b
  macdef init
cd /x
machine not.a.host

machine b.example login second
default login d password e
`)
	want := map[string]login{"a.example": {`u " v`, "p#w"}, "b.example": {user: "b"}}
	if !reflect.DeepEqual(hosts, want) {
		t.Errorf("want %v, got %v", want, hosts)
	}
}

// FuzzParseNetrc checks that parsing ends for every file, that no host is empty, and that
// a user name contains a backslash only if the file contains one.
func FuzzParseNetrc(f *testing.F) {
	for _, s := range []string{"machine a login b password c", "default", "machine", "macdef x\n\n", `machine a login "x\`, "# x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hosts := parseNetrc(text)
		for h, l := range hosts {
			if h == "" || strings.Contains(l.user, "\\") && !strings.Contains(text, "\\") {
				t.Errorf("the netrc file does not contain the login of host %q, user %q", h, l.user)
			}
		}
	})
}

// FuzzContentRange checks that accepted headers are consistent, and that their
// canonical form is accepted too.
func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-1/2", "bytes */5", "bytes 0-1/*", "bytes 0--1/0", "bytes 5-1/9", "bytes 1-9223372036854775807/9223372036854775807", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, last, size, ok := contentRange(text)
		if !ok || first < 0 {
			return
		}
		if last < first && size != 0 || size >= 0 && last >= size || size < -1 {
			t.Fatalf("Content-Range %q is parsed to the inconsistent %d-%d/%d", text, first, last, size)
		}
		total := fmt.Sprint(size)
		if size < 0 {
			total = "*"
		}
		if a, b, c, ok := contentRange(fmt.Sprintf("bytes %d-%d/%s", first, last, total)); !ok || a != first || b != last || c != size {
			t.Fatalf("the canonical form of Content-Range %q is parsed to %d-%d/%d, %v", text, a, b, c, ok)
		}
	})
}
