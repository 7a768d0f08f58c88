package corpora_test

// A row is one nczctl command on files of the corpora and its expected result. Commands
// may contain $C, the directory of the corpora. They run in a separate directory for
// each row.
type row struct {
	files []string // files that the row covers, relative to the corpora; a directory covers all files below it
	setup []string // commands to run first: nczctl commands and the steps that work.step describes
	run   string   // arguments of nczctl
	exit  int
	same  string   // standard output equals this reference file, after edits
	text  string   // standard output equals this text
	has   []string // parts of standard output, if neither same nor text is set
	says  string   // part of standard error
	drop  []string // lines of the output that contain one of these are ignored
	edits []string // alternating old and new strings, replaced in the reference where nczctl intentionally differs
	mask  bool     // whether to ignore lengths and the content of chunks in listings
}

// volatile lists the lines that the reference's own scripts filter out before they
// compare.
var volatile = []string{"_NCProperties", "_SuperblockVersion", "_IsNetcdf4"}

const (
	longString = "truncated = \"0123456789\""
	cutString  = "truncated = \"0123\""
)

// rows covers every file of nczarr; arrays and arraysV3 cover zarr-v2 and zarr-v3.
var rows = []row{
	{files: f("ref_byte.zarr.zip", "ref_byte.cdl"), run: "dump -s -n ref_byte $C/nczarr/ref_byte.zarr.zip", same: "nczarr/ref_byte.cdl", drop: volatile},
	{files: f("ref_byte_fill_value_null.zarr.zip", "ref_byte_fill_value_null.cdl"), run: "dump -s -n ref_byte_fill_value_null $C/nczarr/ref_byte_fill_value_null.zarr.zip", same: "nczarr/ref_byte_fill_value_null.cdl", drop: volatile},
	{files: f("ref_oldkeys.file.zip", "ref_oldkeys.cdl"), run: "dump -n ref_oldkeys $C/nczarr/ref_oldkeys.file.zip", same: "nczarr/ref_oldkeys.cdl"},
	{files: f("ref_oldkeys.file.zip", "ref_oldkeys.zmap"), run: "zmap -t int $C/nczarr/ref_oldkeys.file.zip", same: "nczarr/ref_oldkeys.zmap"},
	{
		files: f("ref_oldkeys.file.zip", "ref_oldkeys.cdl"), setup: []string{
			"unzip $C/nczarr/ref_oldkeys.file.zip", "migrate --to 4.8.1 ref_oldkeys.file", "migrate --to newest ref_oldkeys.file", "migrate --to 4.8.0 ref_oldkeys.file",
		},
		run: "dump -n ref_oldkeys ref_oldkeys.file", same: "nczarr/ref_oldkeys.cdl",
	},
	{
		files: f("ref_oldkeys.file.zip", "ref_oldkeys.zmap"), setup: []string{
			"unzip $C/nczarr/ref_oldkeys.file.zip", "migrate --to pure ref_oldkeys.file", "migrate --to 4.8.1 ref_oldkeys.file", "migrate --to 4.8.0 ref_oldkeys.file", "migrate --to 4.9.1 ref_oldkeys.file",
		},
		run: "zmap -t int ref_oldkeys.file", same: "nczarr/ref_oldkeys.zmap", mask: true,
		edits: []string{`"_NCProperties": "version=2,netcdf=4.9.2,nczarr=2.0.0", `, ""},
	},
	{files: f("ref_quotes_orig.zip", "ref_quotes.cdl"), run: "dump -h -n ref_quotes $C/nczarr/ref_quotes_orig.zip", same: "nczarr/ref_quotes.cdl"},
	// The archive has a root group next to the directory of the dataset. The
	// configuration selects the directory; without the configuration nczctl shows both.
	{
		files: f("ref_power_901_constants_orig.zip", "ref_power_901_constants.cdl"), setup: []string{"config [drivers.zip]\nprefix = \"ref_power_901_constants\"\n"},
		run: "dump -h -n ref_power_901_constants $C/nczarr/ref_power_901_constants_orig.zip", same: "nczarr/ref_power_901_constants.cdl",
	},
	{
		files: f("ref_power_901_constants_orig.zip"), run: "dump -h -n x $C/nczarr/ref_power_901_constants_orig.zip",
		has: []string{"netcdf x {\n\ngroup: ref_power_901_constants {", "float FROCEAN(lat, lon) ;"},
	},
	{files: f("ref_data.zarr"), run: "dump $C/nczarr/ref_data.zarr", text: `netcdf ref_data {
dimensions:
	_Anonymous_Dim_10 = 10 ;
variables:
	int64 data(_Anonymous_Dim_10) ;
data:

 data = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 ;
}
`},
	{files: f("ref_noshape.file.zip"), run: "dump $C/nczarr/ref_noshape.file.zip", exit: 13, has: []string{"data:\n}\n"}, says: `skipped "/v"`},

	{files: f("ref_notzarr.tar.gz"), run: "dump $C/nczarr/ref_notzarr.tar.gz", exit: 13, text: "", says: "not Zarr: the path is a file of another kind"},
	{files: f("ref_notzarr.tar.gz"), setup: []string{untar}, run: "dump empty.file", exit: 13, says: "not Zarr: the store is empty"},
	{files: f("ref_notzarr.tar.gz"), setup: []string{untar}, run: "dump empty.txt", exit: 13, says: "not Zarr: the path is a file of another kind"},
	{files: f("ref_notzarr.tar.gz"), setup: []string{untar}, run: "dump empty.zip", exit: 13, says: "not Zarr: the store is empty"},
	{files: f("ref_notzarr.tar.gz"), setup: []string{untar}, run: "dump notzarr.file", exit: 13, says: `not Zarr: none of the documents .zgroup`},
	{files: f("ref_notzarr.tar.gz"), setup: []string{untar}, run: "dump notzarr.zip", exit: 13, says: `not Zarr: none of the documents .zgroup`},

	// nczctl refuses text that is too long, whereas the reference truncates it.
	{files: f("ref_string.cdl"), run: "gen -o x.zarr $C/nczarr/ref_string.cdl", exit: 13, says: `the string has 10 bytes, but the string size of "truncated" is 4 bytes`},
	{
		files: f("ref_string.cdl", "ref_string_nczarr.baseline"), setup: []string{"edit s.cdl $C/nczarr/ref_string.cdl", "gen -o x.zarr s.cdl"},
		run: "dump -n ref_string x.zarr#mode=nczarr,file", same: "nczarr/ref_string_nczarr.baseline",
	},
	// In pure Zarr nczctl reads one-byte strings as char and lists of strings as string
	// attributes.
	{
		files: f("ref_string_zarr.baseline"), setup: []string{"edit s.cdl $C/nczarr/ref_string.cdl", "gen -o x.zarr#mode=zarr s.cdl"},
		run: "dump -n ref_string x.zarr#mode=zarr,file", same: "nczarr/ref_string_zarr.baseline",
		edits: []string{"string c(d2)", "char c(d2)", `:stringattr = "[\"abc\",\"def\"]"`, `string :stringattr = "abc", "def"`, `c = "a", "b"`, `c = "ab"`},
	},
	{files: f("ref_scalar.cdl"), setup: []string{"gen -o x.zarr#mode=zarr $C/nczarr/ref_scalar.cdl"}, run: "dump -n ref_scalar x.zarr#mode=zarr", same: "nczarr/ref_scalar.cdl"},
	{files: f("ref_scalar_nczarr.cdl"), setup: []string{"gen -o x.zarr $C/nczarr/ref_scalar_nczarr.cdl"}, run: "dump -n ref_scalar x.zarr", same: "nczarr/ref_scalar_nczarr.cdl"},
	{
		files: f("ref_purezarr_base.cdl", "ref_purezarr.cdl"), setup: []string{"gen -o x.zarr#mode=noxarray $C/nczarr/ref_purezarr_base.cdl"},
		run: "dump -n tmp_purezarr x.zarr#mode=noxarray", same: "nczarr/ref_purezarr.cdl",
	},
	{
		files: f("ref_purezarr.cdl"), setup: []string{"gen -o x.zip#mode=zarr,zip $C/nczarr/ref_purezarr_base.cdl"},
		run: "dump -n tmp_purezarr x.zip#mode=noxarray,zip", same: "nczarr/ref_purezarr.cdl",
	},
	{
		files: f("ref_purezarr_xarray.cdl"), setup: []string{"gen -o x.zarr#mode=zarr $C/nczarr/ref_purezarr_base.cdl"},
		run: "dump -n tmp_purezarr_xarray x.zarr#mode=zarr", same: "nczarr/ref_purezarr_xarray.cdl",
	},
	{files: f("ref_xarray.cdl"), setup: []string{"gen -o x.zip $C/nczarr/ref_purezarr_base.cdl"}, run: "dump -n tmp_xarray x.zip#mode=nczarr", same: "nczarr/ref_xarray.cdl"},
	{files: f("ref_xarray.cdl"), setup: []string{"gen -o x.zarr $C/nczarr/ref_xarray.cdl"}, run: "dump -n tmp_xarray x.zarr#mode=zarr", same: "nczarr/ref_xarray.cdl"},
	{
		files: f("ref_xarrayanon.cdl"), setup: []string{"gen -o x.zarr#mode=noxarray $C/nczarr/ref_xarrayanon.cdl"},
		run: "dump -n tmp_xarrayanon x.zarr#mode=noxarray", same: "nczarr/ref_xarrayanon.cdl", edits: []string{" \tint", "\tint"},
	},
	{files: f("ref_nczarr2zarr.cdl"), setup: []string{"gen -o x.zarr $C/nczarr/ref_nczarr2zarr.cdl"}, run: "dump -n nczarr2zarr x.zarr#mode=noxarray", same: "nczarr/ref_nczarr2zarr.cdl"},
	// Numbers without a JSON representation stay quoted, because nczctl writes strict
	// JSON.
	{
		files: f("ref_jsonconvention.cdl", "ref_jsonconvention.zmap"), setup: []string{"gen -o x.zarr $C/nczarr/ref_jsonconvention.cdl"}, run: "zmap x.zarr",
		same: "nczarr/ref_jsonconvention.zmap", mask: true, edits: []string{"[0.,0.,1.]", `"[0.,0.,1.]"`},
	},
	// This store, which is rebuilt from its listing, was written by a big-endian
	// machine.
	{
		files: f("ref_jsonconvention_be.zmap"), setup: []string{"rebuild x $C/nczarr/ref_jsonconvention_be.zmap"},
		run: "dump -n tmp_jsonconvention x", same: "nczarr/ref_jsonconvention.cdl", edits: []string{"varjson3  =", "varjson3 =", "varchar1  =", "varchar1 ="},
	},
	{files: f("ref_blosc_zmap.txt"), setup: []string{"rebuild x $C/nczarr/ref_blosc_zmap.txt"}, run: "dump -h -n var x#mode=nczarr", text: `netcdf var {
dimensions:
	dim0 = 4 ;
	dim1 = 4 ;
	dim2 = 4 ;
	dim3 = 4 ;
variables:
	float var(dim0, dim1, dim2, dim3) ;
}
`},
	{
		files: f("ref_blosc_zmap.txt"), setup: []string{"rebuild x $C/nczarr/ref_blosc_zmap.txt"}, run: "dump -n var x",
		has: []string{" var =\n  0, 1, 2, 3,\n  4, 5, 6, 7,", "252, 253, 254, 255 ;\n}"},
	},

	{files: f("ref_ut_mapapi_create.cdl"), setup: []string{"rebuild x $C/nczarr/ref_ut_mapapi_create.cdl"}, run: "zmap x", same: "nczarr/ref_ut_mapapi_create.cdl"},
	{files: f("ref_ut_mapapi_meta.cdl"), setup: []string{"rebuild x $C/nczarr/ref_ut_mapapi_meta.cdl"}, run: "zmap x", same: "nczarr/ref_ut_mapapi_meta.cdl"},
	{files: f("ref_ut_mapapi_data.cdl"), setup: []string{"rebuild x $C/nczarr/ref_ut_mapapi_data.cdl"}, run: "zmap x", same: "nczarr/ref_ut_mapapi_data.cdl"},
	{files: f("ref_ut_map_writemeta.cdl"), setup: []string{"rebuild x $C/nczarr/ref_ut_map_writemeta.cdl"}, run: "zmap x", same: "nczarr/ref_ut_map_writemeta.cdl"},
	{files: f("ref_ut_map_writemeta2.cdl"), setup: []string{"rebuild x $C/nczarr/ref_ut_map_writemeta2.cdl"}, run: "zmap x", same: "nczarr/ref_ut_map_writemeta2.cdl"},
	read("ref_ut_map_readmeta.txt", "meta1"), read("ref_ut_map_readmeta_nz4.txt", "meta1"), read("ref_ut_map_readmeta_nzf.txt", "meta1"), read("ref_ut_map_readmeta2.txt", "meta2"),
	search("ref_ut_map_search.txt"), search("ref_ut_map_search_nz4.txt"), search("ref_ut_map_search_nzf.txt"),
	search("ref_ut_mapapi_search.txt"), search("ref_ut_mapapi_search_nz4.txt"), search("ref_ut_mapapi_search_nzf.txt"), search("ref_ut_mapapi_search_s3.txt", "/meta1/.zarray", "/meta1\n/meta1/.zarray"), // the reference omits the prefix
}

const untar = "untar $C/nczarr/ref_notzarr.tar.gz"

func f(names ...string) []string {
	for i := range names {
		names[i] = "nczarr/" + names[i]
	}
	return names
}

// read returns the row for the object that a unit test of zmap in netcdf-c wrote.
func read(file, meta string) row {
	return row{
		files: f(file), setup: []string{"rebuild x $C/nczarr/" + file}, run: "cat x/" + meta + "/.zarray", same: "nczarr/" + file,
		edits: []string{"/" + meta + "/.zarray: |", "", "}|\n", "}"},
	}
}

// search returns the row for the order in which a unit test of zmap in netcdf-c lists
// the names of a store.
func search(file string, edits ...string) row {
	return row{files: f(file), setup: []string{"rebuild x $C/nczarr/" + file}, run: "search x /**", same: "nczarr/" + file, edits: edits}
}
