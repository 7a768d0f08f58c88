//go:build ignore

// Protogen compiles the published .proto files into the Go package pb. Run it with "go
// generate ./core/plugin/...". The compiler and the two generators are pinned in
// tools.mod, and protoc is not needed.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"sort"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	protos = "core/plugin/proto/nczplugin/v1/*.proto"
	out    = "core/plugin/internal/pb"
)

func main() {
	log.SetFlags(0)
	if err := os.Chdir(root()); err != nil {
		log.Fatal(err)
	}
	dir := out
	if len(os.Args) > 1 { // TestGenerated passes another directory
		dir = os.Args[1]
	}
	req, err := compile()
	if err != nil {
		log.Fatal(err)
	}
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(tool, req, dir); err != nil {
			log.Fatalf("%s: %v", tool, err)
		}
	}
}

// root returns the directory of tools.mod: the current directory or its nearest parent
// with that file.
func root() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, e := os.Stat(filepath.Join(dir, "tools.mod")); e == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	log.Fatal("tools.mod is neither in the current directory nor in a parent")
	return ""
}

func compile() (*pluginpb.CodeGeneratorRequest, error) {
	files, err := filepath.Glob(protos)
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no files match %s: %v", protos, err)
	}
	for i := range files {
		files[i] = filepath.ToSlash(files[i])
	}
	sort.Strings(files)
	c := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	linked, err := c.Compile(context.Background(), files...)
	if err != nil {
		return nil, err
	}
	req := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: proto.String("paths=source_relative")}
	byName := map[string]*descriptorpb.FileDescriptorProto{}
	for _, f := range linked {
		byName[f.Path()] = protodesc.ToFileDescriptorProto(f)
	}
	var add func(name string)
	done := map[string]bool{}
	add = func(name string) { // dependencies are added first
		if f := byName[name]; f != nil && !done[name] {
			done[name] = true
			for _, d := range f.GetDependency() {
				add(d)
			}
			req.ProtoFile = append(req.ProtoFile, f)
		}
	}
	for _, name := range files {
		add(name)
	}
	return req, nil
}

func generate(tool string, req *pluginpb.CodeGeneratorRequest, dir string) error {
	in, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return err
	}
	var stdout bytes.Buffer
	cmd := exec.Command("go", "tool", "-modfile=tools.mod", tool)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	var resp pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(stdout.Bytes(), &resp); err != nil {
		return err
	}
	if resp.Error != nil {
		return fmt.Errorf("%s", resp.GetError())
	}
	for _, f := range resp.File {
		name := filepath.Join(dir, filepath.Base(f.GetName()))
		if err := os.WriteFile(name, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
