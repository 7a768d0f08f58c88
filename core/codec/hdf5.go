package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// blosc is the number of the HDF5 filter blosc. If the first parameter is not 0, the HDF5
// library has set the fourth parameter to the size of the chunk. NCZarr uses the fourth
// parameter for the size of a block.
const blosc = 32001

// FromHDF5 returns the step for an HDF5 filter with the given parameters. The parameters
// may be the visible parameters of a netCDF attribute or the working parameters of an
// HDF5 file, which the HDF5 library has completed. elem is the size of an element in
// bytes, which shuffle needs if the parameters do not contain it.
//
// The description of the codec maps the numbers to its parameters and contains the
// defaults of missing ones. The error is of kind ncerr.ErrNoFilter if no codec has the
// number, and ErrInvalid for invalid parameters.
//
// Source: netCDF-C, the filter hooks of NCZarr; HDF5, "Registered Filters".
func (c Catalog) FromHDF5(number uint32, params []uint32, elem int) (driver.Step, error) {
	d, ok := c.ByHDF5(number)
	if !ok {
		name := strconv.FormatUint(uint64(number), 10)
		if known := foreignHDF5[number]; known != "" {
			name += " (" + known + ")"
		}
		return driver.Step{}, ncerr.Errorf(ncerr.ErrNoFilter, "", "", "HDF5 filter %s has no codec", name)
	}
	if number == blosc && len(params) > 3 && params[0] != 0 {
		params = slices.Clone(params)
		params[3] = 0
	}
	doc := appendMember(nil, "id", d.ID)
	for i := range d.Params {
		p := &d.Params[i]
		if p.HDF5 == 0 {
			continue
		}
		value, err := fromHDF5(d.ID, p, params, elem)
		if err != nil {
			return driver.Step{}, err
		}
		if value != nil {
			doc = appendMember(doc, p.Name, value)
		}
	}
	return driver.Step{ID: d.ID, Params: append(doc, '}')}, nil
}

// fromHDF5 returns the value of p for JSON, or nil if p is absent and has no default.
func fromHDF5(id string, p *driver.Param, params []uint32, elem int) (any, error) {
	if p.HDF5 > len(params) {
		text := p.Default
		switch {
		case p.HDF5Default != "":
			text = p.HDF5Default
		case p.Input == driver.InputSize:
			text = strconv.Itoa(max(elem, 1))
		}
		switch {
		case text == "":
			return nil, nil
		case p.Type == driver.TextParam:
			return text, nil
		}
		return json.RawMessage(text), nil
	}
	n := params[p.HDF5-1]
	switch {
	case p.Type == driver.BoolParam:
		return n != 0, nil
	case p.Type == driver.TextParam && uint64(n) >= uint64(len(p.Choices)):
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "parameter %q of codec %q must be from 0 to %d, not %d", p.Name, id, len(p.Choices)-1, n)
	case p.Type == driver.TextParam:
		return p.Choices[n], nil
	case p.Min < 0:
		return int32(n), nil
	}
	return n, nil
}

// appendMember appends a member to a JSON object. The caller adds the closing brace.
func appendMember(doc json.RawMessage, name string, value any) json.RawMessage {
	text, _ := json.Marshal(value) // Marshal cannot fail for a number, a bool or a string
	key, _ := json.Marshal(name)
	return fmt.Appendf(doc, "%c%s:%s", "{,"[min(len(doc), 1)], key, text)
}

// ToHDF5 returns the HDF5 filter number and the visible parameters of the codec id. doc
// contains the parameters of the codec as a JSON object, or is empty. Visible parameters
// are those that the HDF5 library does not compute. For shuffle this is the element
// size, if doc contains it. ToHDF5 accepts numbers written as strings, as netCDF-C
// before 4.10 wrote them. For missing parameters it uses the defaults of the
// description. The error is of kind ncerr.ErrNoFilter if the codec has no HDF5 number,
// and ErrInvalid for invalid parameters.
func (c Catalog) ToHDF5(id string, doc json.RawMessage) (number uint32, params []uint32, err error) {
	d, _ := c.Find(id)
	if d.HDF5 == 0 {
		return 0, nil, ncerr.Errorf(ncerr.ErrNoFilter, "", "", "codec %q has no HDF5 filter number", id)
	}
	var have map[string]json.RawMessage
	if len(doc) > 0 {
		if err := json.Unmarshal(doc, &have); err != nil {
			return 0, nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "the parameters of codec %q are not a JSON object: %w", id, err)
		}
	}
	for i := range d.Params {
		p := &d.Params[i]
		if p.HDF5 < 1 || p.HDF5 > driver.MaxHDF5Params || p.Default == "" && !p.Required {
			continue
		}
		n, ok := toHDF5(p, have[p.Name])
		switch {
		case !ok:
			return 0, nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "parameter %q of codec %q: %s cannot be represented in 32 bits", p.Name, id, have[p.Name])
		case n == 0 && p.Input == driver.InputSize: // the parameters do not contain the size
			continue
		case len(params) < p.HDF5:
			params = append(params, make([]uint32, p.HDF5-len(params))...)
		}
		params[p.HDF5-1] = n
	}
	return uint32(d.HDF5), params, nil
}

// toHDF5 converts raw, the JSON value of p, to an HDF5 parameter. It returns false if the
// value has no such representation.
func toHDF5(p *driver.Param, raw json.RawMessage) (uint32, bool) {
	text := strings.Trim(string(bytes.TrimSpace(raw)), `" `)
	switch absent := text == "" || text == "null"; {
	case absent && p.Input == driver.InputSize:
		return 0, true
	case absent:
		text = p.Default
	}
	switch p.Type {
	case driver.TextParam:
		i := slices.Index(p.Choices, text)
		return uint32(i), i >= 0
	case driver.BoolParam:
		on, err := strconv.ParseBool(text)
		return map[bool]uint32{true: 1}[on], err == nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || f < math.MinInt32 || f > math.MaxUint32 {
		return 0, text == "" // the codec reports a missing required parameter
	}
	return uint32(int64(f)), true // two's complement for negative values
}
