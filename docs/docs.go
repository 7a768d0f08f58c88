// Package docs holds the documentation; its reference pages are generated.
package docs

//go:generate sh -c "cd .. && go run ./docs/gen"
