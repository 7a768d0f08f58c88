package wire

import (
	"encoding/json"
	"math"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
)

// maxRank is the largest rank of a chunk in the protocol. It far exceeds the limits of
// netCDF (1024) and Zarr.
const maxRank = 4096

// CodecToWire returns the message for d.
func CodecToWire(d codecdriver.Description) *pb.CodecDescription {
	m := &pb.CodecDescription{
		Id: Text(d.ID), V3: Text(d.V3), Hdf5: int32(min(max(0, d.HDF5), math.MaxInt32)), Summary: Text(d.Summary),
		Encode: d.Encode, Decode: d.Decode, Lossy: d.Lossy, Loses: Text(d.LossNote),
		Transform: string(d.Transform), Prepares: d.Preparation, Objects: string(d.Objects), Aliases: texts(d.Aliases),
	}
	for i := range d.Params {
		p := &d.Params[i]
		m.Params = append(m.Params, &pb.ParamDescription{
			Name: Text(p.Name), Type: string(p.Type), Min: p.Min, Max: p.Max, Choices: texts(p.Choices), DefaultValue: Text(p.Default),
			Required: p.Required, Input: string(p.Input), Hdf5: uint32(min(max(0, p.HDF5), math.MaxInt32)), Hdf5Default: Text(p.HDF5Default), Doc: Text(p.Doc),
		})
	}
	return m
}

// CodecFromWire is the inverse of CodecToWire. It truncates lists to one element more
// than Description.Check accepts.
func CodecFromWire(m *pb.CodecDescription) codecdriver.Description {
	d := codecdriver.Description{
		ID: Text(m.GetId()), V3: Text(m.GetV3()), HDF5: int(max(0, m.GetHdf5())), Summary: Text(m.GetSummary()),
		Encode: m.GetEncode(), Decode: m.GetDecode(), Lossy: m.GetLossy(), LossNote: Text(m.GetLoses()),
		Transform: codecdriver.Transform(Text(m.GetTransform())), Preparation: m.GetPrepares(),
		Objects: codecdriver.Objects(Text(m.GetObjects())), Aliases: texts(first(m.GetAliases(), codecdriver.MaxAliases)),
	}
	for _, p := range first(m.GetParams(), codecdriver.MaxParams) {
		d.Params = append(d.Params, codecdriver.Param{
			Name: Text(p.GetName()), Type: codecdriver.ParamType(Text(p.GetType())), Min: p.GetMin(), Max: p.GetMax(), Choices: texts(first(p.GetChoices(), codecdriver.MaxChoices)),
			Default: Text(p.GetDefaultValue()), Required: p.GetRequired(), Input: codecdriver.InputProperty(Text(p.GetInput())),
			HDF5: int(min(p.GetHdf5(), math.MaxInt32)), HDF5Default: Text(p.GetHdf5Default()), Doc: Text(p.GetDoc()),
		})
	}
	return d
}

// first returns the first limit+1 elements of list, or list itself if it is shorter.
func first[T any](list []T, limit int) []T { return list[:min(len(list), limit+1)] }

func texts(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, Text(s))
	}
	return out
}

// StepsToWire returns the messages for steps.
func StepsToWire(steps []codecdriver.Step) []*pb.Step {
	out := make([]*pb.Step, len(steps))
	for i, s := range steps {
		out[i] = &pb.Step{Id: Text(s.ID), Params: s.Params}
	}
	return out
}

// StepsFromWire is the inverse of StepsToWire.
func StepsFromWire(ms []*pb.Step) []codecdriver.Step {
	out := make([]codecdriver.Step, len(ms))
	for i, m := range ms {
		out[i].ID = m.GetId()
		if len(m.GetParams()) > 0 {
			out[i].Params = json.RawMessage(m.GetParams())
		}
	}
	return out
}

// SpecToWire returns the message for s.
func SpecToWire(s codecdriver.Spec) *pb.Spec {
	m := &pb.Spec{
		Kind: pb.SpecKind(s.Kind), Order: pb.MemoryOrder(s.Order), MaxBytes: s.MaxBytes, Fill: s.Fill, HasFill: s.Fill != nil,
		Dtype: &pb.ElementType{
			Kind: pb.ElementKind(s.DType.Kind), Size: uint32(min(max(0, s.DType.Size), dtype.MaxSize)),
			Order: pb.ByteOrder(s.DType.Order), Unit: []byte(s.DType.Unit),
		},
	}
	for _, n := range s.Shape {
		m.Shape = append(m.Shape, uint64(max(0, n)))
	}
	return m
}

// SpecFromWire is the inverse of SpecToWire. It fails with ncerr.ErrInvalid if a value
// is out of range.
func SpecFromWire(m *pb.Spec) (codecdriver.Spec, error) {
	var s codecdriver.Spec
	bad := func(format string, args ...any) (codecdriver.Spec, error) {
		return codecdriver.Spec{}, ncerr.Errorf(ncerr.ErrInvalid, "read spec", "", format, args...)
	}
	t := m.GetDtype()
	switch {
	case m == nil:
		return bad("the spec is missing")
	case m.GetKind() < 0 || m.GetKind() > pb.SpecKind(codecdriver.Blob):
		return bad("unknown kind %d", m.GetKind())
	case m.GetOrder() < 0 || m.GetOrder() > pb.MemoryOrder(codecdriver.F):
		return bad("unknown order %d", m.GetOrder())
	case m.GetMaxBytes() < 0:
		return bad("invalid size %d", m.GetMaxBytes())
	case len(m.GetShape()) > maxRank:
		return bad("invalid rank %d", len(m.GetShape()))
	case t.GetKind() < 0 || t.GetKind() > pb.ElementKind(dtype.VlenBytes) || t.GetOrder() < 0 || t.GetOrder() > pb.ByteOrder(dtype.Big):
		return bad("unknown element type %d or order %d", t.GetKind(), t.GetOrder())
	case t.GetSize() > dtype.MaxSize || len(m.GetFill()) > dtype.MaxSize:
		return bad("an element of %d bytes or a fill value of %d bytes is too large", t.GetSize(), len(m.GetFill()))
	}
	s = codecdriver.Spec{
		Kind: codecdriver.Kind(m.GetKind()), Order: codecdriver.Order(m.GetOrder()), MaxBytes: m.GetMaxBytes(),
		DType: dtype.Type{Kind: dtype.Kind(t.GetKind()), Size: int(t.GetSize()), Order: dtype.Order(t.GetOrder()), Unit: string(t.GetUnit())},
	}
	if m.GetHasFill() {
		s.Fill = append([]byte{}, m.GetFill()...)
	}
	for _, n := range m.GetShape() {
		if n > math.MaxInt {
			return bad("invalid dimension length %d", n)
		}
		s.Shape = append(s.Shape, int(n))
	}
	return s, nil
}

// SpecsFromReply returns the specs after each of n steps. It fails with ncerr.ErrPlugin
// if a spec is invalid or the number of specs is not n.
func SpecsFromReply(ms []*pb.Spec, n int) ([]codecdriver.Spec, error) {
	if len(ms) != n {
		return nil, protocolErrorf("received %d specs for %d steps", len(ms), n)
	}
	out := make([]codecdriver.Spec, n)
	for i, m := range ms {
		s, err := SpecFromWire(m)
		if err != nil {
			return nil, protocolErrorf("the spec after step %d is invalid: %v", i, err)
		}
		out[i] = s
	}
	return out, nil
}
