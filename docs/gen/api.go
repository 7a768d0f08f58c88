package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/seed-695719ce/nczarr"

// api returns the exported names of the public package with their signatures,
// which makes a change of the API visible in the diff of a commit.
func api() (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil || len(names) == 0 {
		return "", fmt.Errorf("find the source files of %s: %w", module, fs.ErrNotExist)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution) // without comments
		if err != nil {
			return "", err
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(set, files, module)
	if err != nil {
		return "", err
	}
	a := apiPrinter{set: set}
	fmt.Fprintf(&a.out, "package %s // import %q\n", p.Name, module)
	a.values(p.Consts)
	a.values(p.Vars)
	a.funcs(p.Funcs)
	for _, t := range p.Types {
		a.decl(t.Decl)
		a.values(t.Consts)
		a.values(t.Vars)
		a.funcs(t.Funcs)
		a.funcs(t.Methods)
	}
	return a.out.String(), a.err
}

// apiPrinter formats declarations.
type apiPrinter struct {
	set *token.FileSet
	out bytes.Buffer
	err error
}

func (a *apiPrinter) decl(node any) {
	a.out.WriteByte('\n')
	if err := (&printer.Config{Mode: printer.TabIndent, Tabwidth: 8}).Fprint(&a.out, a.set, node); err != nil && a.err == nil {
		a.err = err
	}
	a.out.WriteByte('\n')
}

func (a *apiPrinter) values(list []*doc.Value) {
	for _, v := range list {
		a.decl(v.Decl)
	}
}

func (a *apiPrinter) funcs(list []*doc.Func) {
	for _, f := range list {
		f.Decl.Body = nil
		a.decl(f.Decl)
	}
}
