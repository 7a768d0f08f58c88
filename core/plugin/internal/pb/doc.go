// Package pb is generated from the published protocol in
// core/plugin/proto/nczplugin/v1. Only the packages below core/plugin see its
// types: package wire turns them into the project's own and back.
package pb

//go:generate go run -modfile=../../../../tools.mod ../protogen/main.go
