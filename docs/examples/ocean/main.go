// Command ocean prints a small artificial ocean dataset as CDL, for the demo.
// The output is the same on every run.
//
// The fields are smooth waves with a little noise from a fixed generator, so
// that codecs compress them like real data.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
)

const (
	months = 12
	depths = 8
	lats   = 72
	lons   = 144
)

func main() {
	w := bufio.NewWriterSize(os.Stdout, 1<<20)
	header(w)
	fmt.Fprintln(w, "data:")
	axis(w, "time", months, func(i int) float64 { return 15 + 30.4375*float64(i) })
	axis(w, "depth", depths, func(i int) float64 { return 10 * float64(i*i) })
	axis(w, "lat", lats, func(i int) float64 { return -88.75 + 2.5*float64(i) })
	axis(w, "lon", lons, func(i int) float64 { return 1.25 + 2.5*float64(i) })
	fmt.Fprintln(w, " station_name = \"Hawaii\", \"Azores\", \"Kerguelen\", \"Galápagos\" ;")
	fmt.Fprintln(w, " crs = 4326 ;")
	field(w, "temp", func(t, z, y, x int) string { return fmt.Sprint(packed(temperature(t, z, y, x), y, x)) })
	field(w, "salt", func(t, z, y, x int) string {
		if land(y, x) {
			return "_"
		}
		return fmt.Sprintf("%.6g", 35+1.5*math.Cos(float64(y)/11)-0.02*float64(z)+noise(t, z, y, x)/50)
	})
	fmt.Fprint(w, surface)
	plane(w, "sst", func(t, y, x int) string {
		if land(y, x) {
			return "_"
		}
		return fmt.Sprintf("%.6g", temperature(t, 0, y, x))
	})
	plane(w, "ice", func(t, y, x int) string {
		if temperature(t, 0, y, x) < -1.5 {
			return "1"
		}
		return "0"
	})
	fmt.Fprint(w, "  } // group surface\n}\n")
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "ocean:", err)
		os.Exit(1)
	}
}

func header(w *bufio.Writer) {
	fmt.Fprintf(w, `netcdf ocean {
dimensions:
	time = UNLIMITED ; // (%d currently)
	depth = %d ;
	lat = %d ;
	lon = %d ;
	station = 4 ;
variables:
	double time(time) ;
		time:units = "days since 2000-01-01" ;
		time:calendar = "standard" ;
	float depth(depth) ;
		depth:units = "m" ;
		depth:positive = "down" ;
	float lat(lat) ;
		lat:units = "degrees_north" ;
	float lon(lon) ;
		lon:units = "degrees_east" ;
	string station_name(station) ;
		station_name:_nczarr_maxstrlen = 16 ;
	int crs ;
		crs:grid_mapping_name = "latitude_longitude" ;
	short temp(time, depth, lat, lon) ;
		temp:long_name = "potential temperature" ;
		temp:units = "degC" ;
		temp:scale_factor = 0.001 ;
		temp:add_offset = 15. ;
		temp:_FillValue = -32768s ;
		temp:_ChunkSizes = 1, 4, 36, 72 ;
		temp:_Codecs = "[{\"id\": \"shuffle\", \"elementsize\": 2}, {\"id\": \"zstd\", \"level\": 3}]" ;
	float salt(time, depth, lat, lon) ;
		salt:long_name = "salinity" ;
		salt:units = "1e-3" ;
		salt:_FillValue = 1.e+20f ;
		salt:_ChunkSizes = 2, 8, 36, 144 ;
		salt:_Codecs = "[{\"id\": \"blosc\", \"cname\": \"lz4\", \"clevel\": 5, \"shuffle\": 1, \"blocksize\": 0}]" ;

// global attributes:
		:title = "A made-up ocean, for demonstrations" ;
		:Conventions = "CF-1.10" ;
		:history = "made by a generator; any resemblance to real oceans is limited" ;
`, months, depths, lats, lons)
}

// surface is the header of the group surface, which follows the data of the root.
const surface = `
group: surface {
  variables:
  	float sst(time, lat, lon) ;
  		sst:long_name = "surface temperature" ;
  		sst:units = "degC" ;
  		sst:_FillValue = 1.e+20f ;
  		sst:_ChunkSizes = 3, 72, 144 ;
  		sst:_Shuffle = "true" ;
  		sst:_DeflateLevel = 4 ;
  	byte ice(time, lat, lon) ;
  		ice:flag_values = 0b, 1b ;
  		ice:flag_meanings = "water ice" ;
  		ice:_ChunkSizes = 12, 72, 144 ;
  		ice:_DeflateLevel = 1 ;
  data:
`

// land reports whether a point is on one of two round continents.
func land(y, x int) bool {
	for _, c := range [][3]float64{{30, 40, 16}, {45, 105, 20}} {
		if math.Hypot(float64(y)-c[0], float64(x)-c[1]) < c[2] {
			return true
		}
	}
	return false
}

// temperature returns degrees Celsius: warm at the equator, cold at depth, with
// seasons, waves and noise.
func temperature(t, z, y, x int) float64 {
	lat := (float64(y) + .5 - lats/2.) / (lats / 2.) * math.Pi / 2
	season := 3 * math.Sin(2*math.Pi*float64(t)/months) * math.Sin(lat)
	surface := -2 + 30*math.Pow(math.Cos(lat), 2) + season + math.Sin(float64(x)/7)*math.Cos(float64(y)/9)
	return surface*math.Exp(-float64(z*z)/20) + noise(t, z, y, x)/20
}

// packed returns the short that represents a temperature, or the fill value on land.
func packed(celsius float64, y, x int) int {
	if land(y, x) {
		return -32768
	}
	return int(math.Round((celsius - 15) / 0.001))
}

// noise returns a fixed hash of the position, between -1 and 1.
func noise(t, z, y, x int) float64 {
	h := uint64(((t*depths+z)*lats+y)*lons+x)*0x9E3779B97F4A7C15 + 0x1234567
	h ^= h >> 29
	h *= 0xBF58476D1CE4E5B9
	h ^= h >> 32
	return float64(h%2048)/1023.5 - 1
}

func axis(w *bufio.Writer, name string, n int, f func(int) float64) {
	fmt.Fprintf(w, " %s = ", name)
	for i := range n {
		separate(w, i)
		fmt.Fprintf(w, "%g", f(i))
	}
	fmt.Fprintln(w, " ;")
}

func field(w *bufio.Writer, name string, f func(t, z, y, x int) string) {
	fmt.Fprintf(w, " %s =\n  ", name)
	for i := range months * depths * lats * lons {
		separate(w, i)
		x, y := i%lons, i/lons%lats
		fmt.Fprint(w, f(i/(depths*lats*lons), i/(lats*lons)%depths, y, x))
	}
	fmt.Fprintln(w, " ;")
}

func plane(w *bufio.Writer, name string, f func(t, y, x int) string) {
	fmt.Fprintf(w, "   %s =\n    ", name)
	for i := range months * lats * lons {
		separate(w, i)
		fmt.Fprint(w, f(i/(lats*lons), i/lons%lats, i%lons))
	}
	fmt.Fprintln(w, " ;")
}

// separate writes a comma before value i, and a line break before every twelfth.
func separate(w *bufio.Writer, i int) {
	switch {
	case i == 0:
	case i%12 == 0:
		fmt.Fprint(w, ",\n  ")
	default:
		fmt.Fprint(w, ", ")
	}
}
