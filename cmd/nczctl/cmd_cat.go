package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
)

func (a *app) newCat() *cobra.Command {
	return &cobra.Command{
		Use:     "cat URL/key",
		Short:   "Print the content of one object of a store",
		Long:    "Print the bytes of one object of a store unchanged. On a terminal, control\ncharacters are shown as escapes. The command fails if the object is larger than\nlimits.max_chunk.",
		Example: "  nczctl cat data.zip/temp/.zarray\n  nczctl cat s3://bucket/data.zarr/temp/.zarray",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			m, key, err := a.openStore(c.Context(), list[0], true)
			if err != nil {
				return err
			}
			defer m.Close(c.Context()) //nolint:errcheck // the store is only read, so Close cannot lose data
			if key == "" {
				return ncerr.Errorf(ncerr.ErrInvalid, "cat", ncurl.Masked(list[0]), "the argument is a store, not a key in a store")
			}
			body, _, err := m.ReadAll(c.Context(), key, int64(a.session.Config().Limits.MaxChunk))
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.printJSON(map[string]any{"key": "/" + key, "size": len(body), "content": body})
			}
			_, err = a.data.Write(body)
			return err
		},
	}
}
