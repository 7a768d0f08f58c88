// Package http is the read-only storage driver for plain web servers: each
// object is a file below the dataset's URL.
//
// # Reading
//
// A whole object is one GET, a range one GET with a Range header, Stat a HEAD.
// Answers are taken only when they say what they are: a partial answer must
// name exactly the range that was asked for and the size of the whole, a body
// must have the length that its head announces. A server that ignores ranges
// answers with the whole object, of which the driver reads as much as it needs,
// if that begins within the first max_skip bytes; else it says that this
// server cannot give ranges. Answers in a content encoding (gzip) are refused: the
// driver asks for none.
//
// 404 and 410 are absence, and so is a redirect that only adds a slash: a
// directory. Everything else is an error. An HTML page in place of an object, as
// servers of web applications answer for paths that they do not have, is an error
// too, since with such a server absence cannot be told from presence. What is
// called HTML is no metadata document (driver.OpenSpec.Documents) whatever it is;
// of other objects the beginning decides, and Stat, which does not see it, takes
// them for objects.
//
// There is no listing. Datasets with consolidated metadata or NCZarr's own
// lists need none.
//
// # Versions
//
// The version of an object is its strong ETag, else its time of modification
// where that is at least two seconds older than the answer. Weak ETags are no
// versions, since they may stay while bytes change. Source: RFC 9110, 8.8.
//
// # Credentials
//
// A user name and password come from the options or from a netrc file. Each
// login belongs to one scheme, host and port, and is sent over TLS or to this
// machine only. A machine HOST of a netrc file is https://HOST on port 443,
// HOST:PORT that port; default is not used. A redirect to another server gets
// only what netrc has for that one, and a redirect from https to http is
// refused. So is one to an address that is loopback, link-local or private from
// a server whose address is farther from this machine.
package http
