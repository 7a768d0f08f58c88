package session

// openFlags is 0 on Windows: creating links needs a privilege, and pipes have names in a
// separate namespace.
const openFlags = 0
