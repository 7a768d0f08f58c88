// Package http is the read-only storage driver for plain web servers: each object is a
// file below the dataset's URL.
//
// # Reading
//
// Getting a whole object sends one GET, getting a range sends one GET with a Range
// header, and Stat sends a HEAD. The driver accepts a response only if it is
// consistent: a partial response must state exactly the requested range and the total
// size, and a body must have the length that its header announces. If a server ignores
// ranges and returns the whole object, the driver skips to the range, provided that it
// begins within the first max_skip bytes. Otherwise it reports that the server does not
// support ranges. Responses with a content encoding such as gzip are errors, because
// the driver does not request any.
//
// 404 and 410 mean that the object does not exist, and so does a redirect that only
// adds a slash, which indicates a directory. Every other status is an error. An HTML
// page in place of an object is also an error: some servers of web applications return
// such a page with status 200 for every missing path. A metadata document
// (driver.OpenSpec.Documents) whose Content-Type is HTML is always rejected. Any other
// object of that type is rejected only if its first bytes are HTML; Stat does not read
// these bytes and accepts the object.
//
// The driver does not support listing. Datasets with consolidated metadata or NCZarr's
// own lists do not need it.
//
// # Versions
//
// The version of an object is its strong ETag. Without an ETag the version consists of
// the modification time and the size, provided that the modification time is at least two
// seconds before the date of the response. Weak ETags are not used, because they may stay
// the same while bytes change. Source: RFC 9110, 8.8.
//
// # Credentials
//
// A user name and password come from the options or from a netrc file. Each login belongs
// to one scheme, host and port, and is sent only over TLS or to this machine. In a netrc
// file, "machine HOST" means port 443 of HOST, and "machine HOST:PORT" means that port;
// the entry "default" is not used. After a redirect to another server, the driver sends
// only the login that netrc has for the new server. A redirect from https to http is
// refused. A redirect from a server to a more local address, such as a loopback,
// link-local or private address, is also refused.
//
// The option reach refuses such addresses for all requests. The driver checks the address
// to which it connects, after it has resolved the host name. The option anonymous sends no
// login. References in a dataset are read with both options.
package http
