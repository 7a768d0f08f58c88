package zip

import "github.com/seed-695719ce/nczarr/core/zmap/driver"

// NewClosing gives an opener that behaves as on systems where an open file can
// be neither renamed nor replaced.
func NewClosing() driver.Opener { return &opener{closeToRename: true} }

// JudgeName gives the reason why name is no legal key, or "".
func JudgeName(name string) string { return reasonText[judgeName([]byte(name))] }
