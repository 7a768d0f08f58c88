package s3

import "time"

// HaveTime lets canceled requests take minutes, because the server of the
// tests may be slow on a busy machine. It must be called before a store is opened.
func HaveTime() { extraTime = 5 * time.Minute }
