// Package pb contains the Go code generated from the published protocol in
// core/plugin/proto/nczplugin/v1. All *.pb.go files are generated, including the methods
// of the Unimplemented server types. Package wire converts between these types and the
// types of this module; only packages below core/plugin use them.
package pb

//go:generate go run -modfile=../../../../tools.mod ../protogen/main.go
