// Package cftime turns the numbers of a time coordinate into dates: "days
// since 1850-01-01" and a calendar say what a number means.
//
//	u, err := cftime.Parse("hours since 1900-01-01 06:00", "noleap")
//	text, ok := u.AppendFloat(nil, 36.5, ' ') // 1900-01-02 18:30
//
// It is pure computation: no clock, no zone data, no I/O. The arithmetic is
// exact for integers, and rounded once, to a microsecond, for floating-point
// numbers.
//
// Above it are core/cdl, which prints dates on request, and the package nczarr
// at the root of the module, which decodes and finds them.
//
// Source: CF conventions 1.11, section 4.4, "Time Coordinate"; netcdf-c
// ncdump, option -t, for the form of the text.
package cftime
