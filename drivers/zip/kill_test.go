package zip_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	zipdriver "github.com/seed-695719ce/nczarr/drivers/zip"
)

// killEnv makes the test binary run writeForever.
const killEnv = "NCZARR_TEST_ZIP_WRITER"

// spillEnv makes the test binary run writeLarge.
const spillEnv = "NCZARR_TEST_ZIP_SPILL"

const killObjects = 20

func TestMain(m *testing.M) {
	killpoint.Main()
	switch {
	case os.Getenv(killEnv) != "":
		writeForever(os.Getenv(killEnv))
	case os.Getenv(spillEnv) != "":
		writeLarge(os.Getenv(spillEnv))
	case os.Getenv(fullEnv) != "":
		writeTooMuch(os.Getenv(fullEnv))
	default:
		os.Exit(m.Run())
	}
}

// generation returns the content of object i in generation n.
func generation(n string, i int) string { return strings.Repeat(n+" ", 3000+100*i) }

// writeForever writes generation after generation, with one flush each.
func writeForever(path string) {
	ctx := context.Background()
	m, err := zipdriver.New().Open(ctx, driver.OpenSpec{Path: path, Mode: driver.Update})
	for n := 1; err == nil; n++ {
		for i := 0; i < killObjects && err == nil; i++ {
			_, err = m.Put(ctx, fmt.Sprint("v/", i), driver.Bytes(generation(fmt.Sprint(n), i)), &driver.PutOptions{})
		}
		if err == nil {
			err = m.Flush(ctx)
		}
	}
	fmt.Println("error", err)
	os.Exit(1)
}

// writeLarge opens a new archive and puts an object that is written to the spill file.
// It does not flush.
func writeLarge(path string) {
	ctx := context.Background()
	m, err := zipdriver.New().Open(ctx, driver.OpenSpec{Path: path, Mode: driver.Create})
	if err == nil {
		_, err = m.Put(ctx, "large", driver.Bytes(strings.Repeat("x", 300<<10)), &driver.PutOptions{})
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}
