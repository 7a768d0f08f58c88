// Package conformance is the engine that verifies whether a driver, a filter or a whole
// format fulfills its contract. A [Suite] is a list of [Check] values, each with a
// stable id. A [Target] creates a new environment for every check. [Run] runs the
// checks and returns a [Report], and [Test] runs them as sub-tests.
//
// The suites are in subpackages: conformance/mapsuite for storage drivers and
// conformance/codecsuite for filters. The author of a driver writes
//
//	func TestConformance(t *testing.T) {
//		conformance.Test(t, mapsuite.Suite(), &mapsuite.Target{ ... })
//	}
//
// nczctl calls Run with the same suite and a target that may run in another process.
//
// # Capabilities
//
// A check lists the capabilities that it needs. Everything that the target declares
// must work: a check whose capabilities are all declared passes or fails, unless its
// rule cannot apply to the target (see T.Skipf). The status of a check that lacks a
// capability is unsupported. If the check has a Refuse function, that function first
// verifies that the target cleanly refuses the operation, and otherwise fails the
// check.
//
// The package imports only the standard library and conformance/testseed, and no other
// layer of the project.
package conformance
