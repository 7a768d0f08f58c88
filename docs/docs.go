// Package docs contains the documentation and generates its reference pages.
package docs

//go:generate sh -c "cd .. && go run ./docs/gen"
