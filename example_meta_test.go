package nczarr_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-695719ce/nczarr"
)

func ExampleGroup_Walk() {
	for path, v := range ocean().Walk() {
		fmt.Println(path, v.Type(), v.Shape(), v.Attr("units").Or("-"))
	}
	// Output:
	// /time int [3] days since 2000-01-01
	// /lat float [3] degrees_north
	// /lon float [4] degrees_east
	// /station string [3] -
	// /depth double [3] -
	// /surface/temp short [3 3 4] degC
}

func ExampleGroup_Var() {
	ds := ocean()
	surface := must(ds.Subgroup("surface"))
	fmt.Println(must(surface.Var("temp")).Path(), must(surface.Var("/lat")).Path())
	_, err := ds.Var("surface/tmep")
	fmt.Println(errors.Is(err, nczarr.ErrNoVar))
	// Output:
	// /surface/temp /lat
	// true
}

func ExampleGroup_Subgroups() {
	ds := ocean()
	must(must(ds.Subgroup("surface")).DefineGroup("waves"))
	var list func(g *nczarr.Group)
	list = func(g *nczarr.Group) {
		fmt.Println(g.Path(), len(g.Vars()), len(g.Dims()))
		for _, sub := range g.Subgroups() {
			list(sub)
		}
	}
	list(ds.Group)
	// Output:
	// / 5 4
	// /surface 1 0
	// /surface/waves 0 0
}

func ExampleGroup_Dim() {
	ds := ocean()
	d := must(must(ds.Subgroup("surface")).Dim("time")) // defined in the root group
	fmt.Println(d.Path(), d.Len(), d.Unlimited())
	// Output: /time 3 true
}

func ExampleVar_Dims() {
	for _, d := range must(ocean().Var("surface/temp")).Dims() {
		fmt.Println(d.Name(), d.Len())
	}
	// Output:
	// time 3
	// lat 3
	// lon 4
}

func ExampleVar_Fill() {
	ds := ocean()
	fmt.Println(must(ds.Var("surface/temp")).Fill())
	fmt.Println(must(ds.Var("lat")).Fill()) // the default of netCDF
	// Output:
	// -32768 true
	// 9.96921e+36 true
}

func ExampleVar_Codecs() {
	for _, c := range must(ocean().Var("surface/temp")).Codecs() {
		fmt.Println(c)
	}
	// Output:
	// {"id":"shuffle","elementsize":2}
	// {"id":"zstd","level":3}
}

func ExampleVar_Available() {
	v := must(ocean().Var("surface/temp"))
	fmt.Println(v.Available(ctx))
	// Output: <nil>
}

func ExampleVar_Attr() {
	temp := must(ocean().Var("surface/temp"))
	fmt.Println(temp.Attr("units").String())
	fmt.Println(temp.Attr("long_name").Exists(), temp.Attr("long_name").Or("no name"))
	scale := must(temp.Attr("scale_factor").Float64())
	power := must(temp.Attr("power").Or(1).Int64())
	fmt.Println(scale, power)
	// Output:
	// degC
	// false no name
	// 0.5 1
}

func ExampleVar_Attrs() {
	for _, a := range must(ocean().Var("surface/temp")).Attrs() {
		fmt.Printf("%s = %v (%T)\n", a.Name, a, a.Value)
	}
	// Output:
	// _FillValue = -32768 ([]int16)
	// units = degC (string)
	// scale_factor = 0.5 ([]float64)
	// add_offset = 10 ([]float64)
}

func ExampleAttr_Float64s() {
	ds := scratch()
	check(ds.SetAttr("bounds", []float32{-90, 90}))
	fmt.Println(must(ds.Attr("bounds").Float64s()))
	_, err := ds.Attr("bounds").Float64()
	fmt.Println(err)
	// Output:
	// [-90 90]
	// read attribute "bounds": invalid argument: the attribute has 2 values, not one
}

func ExampleGroup_SetAttr() {
	ds := scratch()
	check(ds.SetAttr("Conventions", "CF-1.11"))        // text
	check(ds.SetAttr("sources", []string{"a", "b"}))   // strings
	check(ds.SetAttr("version", int16(3)))             // a number
	check(ds.SetAttr("valid_range", []float64{0, 40})) // numbers
	fmt.Println(ds.Attrs())
	fmt.Println(ds.SetAttr("when", struct{}{}))
	// Output:
	// [CF-1.11 a, b 3 0, 40]
	// set attribute "when": wrong or unknown type: a value of type struct {} cannot be stored; use a string, a number or a slice of them
}

func ExampleGroup_DeleteAttr() {
	ds := ocean()
	check(ds.DeleteAttr("title"))
	fmt.Println(ds.Attr("title").Exists(), errors.Is(ds.DeleteAttr("title"), nczarr.ErrNoAttr))
	// Output: false true
}

func ExampleDataset_Problems() {
	dir, remove := tempDir()
	defer remove()
	path := filepath.Join(dir, "ocean.zarr")
	made := must(nczarr.Create(ctx, path))
	fill(made)
	check(made.Close(ctx))
	check(os.WriteFile(filepath.Join(path, "lat", ".zarray"), []byte("{}"), 0o600))

	ds := must(nczarr.Open(ctx, path))
	for _, p := range ds.Problems() {
		fmt.Println(p.Path, errors.Is(p.Err, nczarr.ErrMetadata) || errors.Is(p.Err, nczarr.ErrNotZarr))
	}
	fmt.Println(must(nczarr.Read[int16](ctx, must(ds.Var("surface/temp")), nczarr.At(0), nczarr.At(0))).Data)
	// Output:
	// /lat true
	// [0 1 2 3]
}

func ExampleWithLimits() {
	dir, remove := tempDir()
	defer remove()
	path := filepath.Join(dir, "ocean.zarr")
	made := must(nczarr.Create(ctx, path))
	fill(made)
	check(made.Close(ctx))
	_, err := nczarr.Open(ctx, path, nczarr.WithLimits(nczarr.Limits{MaxNodes: 2}))
	fmt.Println(errors.Is(err, nczarr.ErrLimit))
	// Output: true
}

func ExampleRawCodec() {
	ds := scratch()
	must(ds.DefineDim("x", 3))
	v := must(ds.DefineVar(ctx, "v", nczarr.VarSpec{Type: nczarr.Int32, Dims: []string{"x"}, Codecs: []nczarr.Codec{
		nczarr.RawCodec{ID: "lzma", Params: map[string]any{"preset": 9}},
	}}))
	check(nczarr.Write(ctx, v, []int32{1, 2, 3}))
	fmt.Println(v.Codecs())
	// Output: [{"id":"lzma","preset":9}]
}

func ExampleVar_Core() {
	temp := must(ocean().Var("surface/temp"))
	s := must(temp.Core().Stored(ctx))
	fmt.Println(s.Chunks, s.Grid, s.Raw)
	// Output: 3 3 72
}
