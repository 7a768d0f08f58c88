package session

// openAsIs is nothing here: links need a privilege and pipes have names of
// their own.
const openAsIs = 0
