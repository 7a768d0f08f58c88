// Package conformance is the engine that shows whether a driver, a filter or
// a whole format keeps its contract. A [Suite] is a list of [Check] values,
// each with a stable id; a [Target] makes something fresh for every check to
// work on; [Run] gives a [Report], and [Test] makes sub-tests of the same
// checks.
//
// The suites themselves are in the packages below: conformance/mapsuite for
// storage drivers, conformance/codecsuite for filters. A driver author writes
//
//	func TestConformance(t *testing.T) {
//		conformance.Test(t, mapsuite.Suite(), &mapsuite.Target{ ... })
//	}
//
// and nczctl calls Run with the same suite and a target that may live in
// another process.
//
// # Capabilities
//
// A check names the capabilities that it needs. What the target declares must
// work: a check of a declared capability passes or fails, it is never
// skipped. A check of an undeclared one has the status unsupported; where the
// check has a Refuse function, that function first shows that the ability is
// refused cleanly, and a target that does something else fails.
//
// The package imports the standard library only; it stands beside every layer
// and above none.
package conformance
