package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A rule refuses a phrase.
type rule struct {
	phrase *regexp.Regexp
	advice string
}

// readRules reads phrases.txt: the rules for text, the phrases they must not refuse,
// and the rule for identifiers.
func readRules(t *testing.T) (rules []rule, allowed []*regexp.Regexp, names rule) {
	t.Helper()
	text, err := os.ReadFile("phrases.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Split(line, "\t")
		if phrase, ok := strings.CutPrefix(fields[0], "allow:"); ok {
			allowed = append(allowed, regexp.MustCompile("(?i)"+phrase))
			continue
		}
		if words, ok := strings.CutPrefix(fields[0], "name:"); ok {
			names = rule{regexp.MustCompile("^(?:" + words + ")$"), fields[1]}
			continue
		}
		rules = append(rules, rule{regexp.MustCompile("(?i)" + fields[0]), fields[1]})
	}
	return rules, allowed, names
}

// wordsOf matches the words of an identifier, which begin at capitals and after
// underscores.
var wordsOf = regexp.MustCompile(`[A-Z]+(?:s\b)?(?:[a-z0-9]*)|[a-z0-9]+`)

// TestPhrases refuses the phrases of phrases.txt in the comments, strings and
// identifiers of Go files and in pages. Generated files are not read.
func TestPhrases(t *testing.T) {
	t.Parallel()
	rules, allowed, names := readRules(t)
	faults := func(text string) (out []string) {
		for _, a := range allowed {
			text = a.ReplaceAllString(text, "")
		}
		text = strings.Join(strings.Fields(text), " ") // a phrase may be wrapped
		for _, r := range rules {
			if m := r.phrase.FindString(text); m != "" {
				out = append(out, strconv.Quote(m)+": write "+r.advice)
			}
		}
		return out
	}
	for _, bad := range []string{"what it\ngives", "Slot", "there is\n\tnone"} {
		if faults(bad) == nil {
			t.Fatalf("%q is accepted", bad)
		}
	}
	if good := "The writer gives up, and cell_methods stays."; faults(good) != nil {
		t.Fatalf("%q is refused: %v", good, faults(good))
	}
	for path, text := range pages(t) {
		for i, part := range strings.Split(text, "\n\n") {
			for _, f := range faults(part) {
				t.Errorf("%s, paragraph %d: %s", path, i+1, f)
			}
		}
	}
	set := token.NewFileSet()
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, ".pb.go") || path == "docs/prose_test.go" {
			return nil
		}
		file, err := parser.ParseFile(set, filepath.Join("..", path), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		say := func(pos token.Pos, text string) {
			for _, f := range faults(text) {
				t.Errorf("%s:%d: %s", path, set.Position(pos).Line, f)
			}
		}
		for _, group := range file.Comments {
			say(group.Pos(), group.Text())
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					say(n.Pos(), text)
				}
			case *ast.Ident:
				name := n.Name
				for _, a := range allowed {
					name = a.ReplaceAllString(name, "")
				}
				for _, word := range wordsOf.FindAllString(name, -1) {
					if names.phrase.MatchString(strings.ToLower(word)) {
						t.Errorf("%s:%d: %s: write %s", path, set.Position(n.Pos()).Line, n.Name, names.advice)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
