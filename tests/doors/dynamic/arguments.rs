//! Arguments that a static call would not compile for.

use super::Place;
use crate::common::stream;
use parascan::dynamic::{Array, Op, Type, Value, View, ViewMut, compact, reduce, scan, sort, unique};
use parascan::{Error, Workspace};
use std::fmt::Debug;

#[track_caller]
fn refused<R: Debug>(result: Result<R, Error>, words: &str) {
    assert_eq!(result.unwrap_err().to_string(), words);
}

#[test]
fn types() {
    let (x, flags, mut other, mut same) = ([1_i32, 2, 3, 4], [1_u8; 4], [0_u32; 4], [0_i32; 4]);
    let (x, flags) = (View::new(&x), View::new(&flags));
    refused(
        scan(Op::Sum).run_into(x, ViewMut::new(&mut other)),
        "scan: the output should be of type i32 and is of u32",
    );
    refused(
        scan(Op::Sum).init(Value::from(1.0_f32)).run(x),
        "scan: the initial value should be of type i32 and is of f32",
    );
    refused(scan(Op::Sum).heads(x).run(x), "scan: the array of head flags should be of type u8 and is of i32");
    refused(
        scan(Op::Sum).segments(flags).run(x),
        "scan: the array of offsets should be of type u32 or u64 and is of u8",
    );
    refused(
        reduce(Op::Sum).init(Value::from(1_u32)).rows(2).run(x),
        "reduce: the initial value should be of type i32 and is of u32",
    );
    refused(
        reduce(Op::Max).position_into(x, ViewMut::new(&mut same)),
        "position: the index should be of type u64 and is of i32",
    );
    refused(
        reduce(Op::Sum).heads(flags).run_with_keys_into(
            x,
            ViewMut::new(&mut [0_u8; 4]),
            ViewMut::new(&mut same),
            ViewMut::new(&mut [0_u64]),
        ),
        "reduce: what says where segments begin should be of type keys and is of heads",
    );
    refused(sort().indices(x, Type::U16), "sort: the array of indices should be of type u32 or u64 and is of u16");
    refused(compact().flags(x).run(x), "compact: the array of flags should be of type u8 and is of i32");
    refused(
        compact().run_into(x, ViewMut::new(&mut same), ViewMut::new(&mut other)),
        "compact: the count should be of type u64 and is of u32",
    );
    refused(
        unique().run_into(x, ViewMut::new(&mut other), ViewMut::new(&mut [0_u64])),
        "unique: the output should be of type i32 and is of u32",
    );
    refused(
        scan(Op::Last).exclusive().run(x),
        "scan: the operator Last has no identity; an exclusive scan by it needs `.init(first)`",
    );
}

#[test]
fn values() {
    assert_eq!(Value::from_bytes(Type::F32, &[0; 8]), None);
    assert_eq!(Value::from_bytes(Type::F32, &[0; 9]), None);
    let value = Value::from(-7_i16);
    assert_eq!((value.ty(), value.as_bytes(), value.get()), (Type::I16, &(-7_i16).to_ne_bytes()[..], Some(-7_i16)));
    assert_eq!((format!("{value} {value:?}"), value.get::<u16>()), ("-7 -7i16".into(), None));
    assert_eq!(Value::from(7_usize), Value::from(7_u64));
}

#[test]
fn arrays() {
    let array = Array::from(vec![1_u8, 2]);
    let array = array.into_vec::<i8>().unwrap_err();
    let array = array.into_cuda_slice::<u8>().unwrap_err();
    assert_eq!((array.ty(), array.len(), format!("{array:?}")), (Type::U8, 2, "[1, 2]".into()));
    assert_eq!(array.into_vec::<u8>().unwrap(), [1, 2]);
}

/// Arrays without items, at null.
#[test]
fn nothing() {
    for ty in Type::ALL {
        // SAFETY: there are no items.
        let (none, mut out) =
            unsafe { (View::on_host(ty, std::ptr::null(), 0), ViewMut::on_host(ty, std::ptr::null_mut(), 0)) };
        scan(Op::Max).run_into(none, out.again()).unwrap();
        sort().run_into(none, out.again()).unwrap();
        assert!(scan(Op::Max).run(none).unwrap().is_empty());
        assert!(compact().run(none).unwrap().is_empty());
        assert!(matches!(reduce(Op::Last).run(none), Err(Error::Empty { .. })));
    }
}

/// Memory on the host and on the device does not go together.
#[test]
fn places() {
    let Some(stream) = stream() else { return };
    let (host, device) = (Place::Host.put(&[1_u64, 2]), Place::Device(stream.clone()).put(&[1_u64, 2]));
    let (mut host_out, mut device_out) = (Place::Host.put(&[0_u64, 0]), Place::Device(stream.clone()).put(&[0_u64, 0]));
    for (input, other, mut out) in
        [(host.view(), device.view(), device_out.view_mut()), (device.view(), host.view(), host_out.view_mut())]
    {
        let what = |what: &str| format!("scan: {what} and the input do not lie in the same memory: one is on the host");
        refused(scan(Op::Sum).run_into(input, out.again()), &what("the output"));
        refused(scan(Op::Sum).segments(other).run(input), &what("the array of segments"));
        assert!(matches!(sort().run_pairs(input, other), Err(Error::Place { what: "the payload", .. })));
        assert!(matches!(compact().bits(other).run(input), Err(Error::Place { .. })));
        assert!(matches!(reduce(Op::Max).position_into(input, out.again()), Err(Error::Place { .. })));
    }
}

/// After `prepare` a call with the workspace allocates nothing: its scratch memory does not grow.
#[test]
fn workspaces() {
    let Some(stream) = stream() else { return };
    let place = Place::Device(stream.clone());
    let n = 1 << 20;
    let x: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
    let input = place.put(&x);
    let mut output = place.put(&vec![0_f32; n]);
    let mut workspace = Workspace::new(&stream);
    scan(Op::Sum).prepare(Type::F32, n, &mut workspace).unwrap();
    sort().prepare(Type::F32, n, &mut workspace).unwrap();
    compact().prepare(Type::F32, n, &mut workspace).unwrap();
    compact().flags(input.view()).prepare(Type::F32, n, &mut workspace).unwrap();
    let bytes = workspace.bytes();
    scan(Op::Sum).workspace(&mut workspace).run_into(input.view(), output.view_mut()).unwrap();
    sort().workspace(&mut workspace).run_into(input.view(), output.view_mut()).unwrap();
    let mut count = place.put(&[0_u64]);
    compact().workspace(&mut workspace).run_into(input.view(), output.view_mut(), count.view_mut()).unwrap();
    assert_eq!(workspace.bytes(), bytes);
    assert_eq!(place.get::<u64>(count)[0] as usize, x.iter().filter(|&&x| x != 0.0).count());
}
