// Package cftime converts the numbers of a time coordinate to dates, given its units,
// such as "days since 1850-01-01", and its calendar.
//
//	u, err := cftime.Parse("hours since 1900-01-01 06:00", "noleap")
//	text, ok := u.AppendFloat(nil, 36.5, ' ') // 1900-01-02 18:30
//
// The package only computes: it uses no clock, no time zone data and no I/O. The
// arithmetic is exact for integers. For floating-point numbers it rounds once, to a
// microsecond.
//
// core/cdl uses the package to print dates. The package nczarr at the root of the module
// uses it to decode and find dates.
//
// Source: CF conventions 1.11, section 4.4, "Time Coordinate"; netcdf-c ncdump, option
// -t, for the form of dates.
package cftime
