//! DLPack: arrays out and in again, and tensors that are refused.

use crate::common::{Rng, any, assert_bytes, stream};
use crate::dynamic::{Drawn, Place};
use half::{bf16, f16};
use parascan::Error;
use parascan::dlpack::dlpark::DlpackFlags;
use parascan::dlpack::dlpark::ffi::{DLDataType, DLDataTypeCode, DLDevice, DLDeviceType};
use parascan::dlpack::dlpark::metadata::Dynamic;
use parascan::dlpack::{self, Managed, ManagedTensorBase, Tensor, legacy, versioned};
use parascan::dynamic::{Array, Op, Type, scan, sort};
use std::sync::Arc;

/// Out, in, and through a primitive; in both layouts.
fn there_and_back<T: Drawn, M: ManagedTensorBase>() {
    let mut rng = Rng::new();
    for place in Place::all() {
        let (rows, columns) = (1 + rng.below(30), 1 + rng.below(30));
        let x: Vec<T> = any(&mut rng, rows * columns);
        let stream = match &place {
            Place::Host => None,
            Place::Device(stream) => Some(stream),
        };
        let given: Managed<M> = dlpack::export(T::put(&place, &x), &[rows, columns], stream).unwrap();
        // SAFETY: the tensor is a live one of this process, and nothing else accesses it.
        let mut tensor = unsafe { Tensor::import(given, stream) }.unwrap();
        assert_eq!((tensor.view().ty(), tensor.shape()), (T::TYPE, &[rows, columns][..]));
        let expected = scan(Op::Max).rows(columns).run(T::put(&place, &x).view()).unwrap();
        let got = scan(Op::Max).rows(columns).run(tensor.view()).unwrap();
        assert_bytes(&T::get(&place, got), &T::get(&place, expected), &place);
        sort().run_in_place(tensor.view_mut().unwrap()).unwrap();
        let sorted = sort().run(T::put(&place, &x).view()).unwrap();
        let got = scan(Op::Last).run(tensor.view()).unwrap(); // a copy
        assert_bytes(&T::get(&place, got), &T::get(&place, sorted), &place);
    }
}

macro_rules! stamp { ($($t:ident)*) => { $(
    #[test]
    fn $t() {
        there_and_back::<$t, parascan::dlpack::dlpark::ffi::DLManagedTensor>();
        there_and_back::<$t, parascan::dlpack::dlpark::ffi::DLManagedTensorVersioned>();
    }
)* } }
stamp! { f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 }

/// A foreign tensor over `items`, which it owns.
fn foreign(
    mut items: Vec<u32>,
    offset: u64,
    shape: &[i64],
    strides: &[i64],
    (dtype, device): (DLDataType, DLDevice),
    flags: DlpackFlags,
) -> versioned::Dlpack {
    let data = items.as_mut_ptr().cast();
    let mut tensor = Dynamic::new(shape, strides).initialize(Box::new(items)).unwrap();
    tensor.set_data(data).set_dtype(dtype).set_device(device).set_byte_offset(offset);
    tensor.set_flags(flags).unwrap();
    // SAFETY: the tensor owns the items; what is not true of it is refused before it is used.
    unsafe { tensor.finish() }
}

const U32: DLDataType = DLDataType::scalar(DLDataTypeCode::UINT, 32);

#[track_caller]
fn refused(tensor: versioned::Dlpack, words: &str) {
    // SAFETY: refused before an item is used.
    let error = unsafe { Tensor::import(tensor, None) }.unwrap_err();
    assert!(matches!(error, Error::Tensor { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("dlpack: {words}"));
}

#[test]
fn what_is_refused() {
    let items = || (0..12).collect::<Vec<u32>>();
    let cpu = (U32, DLDevice::CPU);
    let none = DlpackFlags::empty();
    refused(
        foreign(items(), 0, &[3, 4], &[1, 3], cpu, none),
        "the items are not contiguous: the strides are [1, 3] and the shape is [3, 4]",
    );
    refused(
        foreign(items(), 0, &[3], &[2], cpu, none),
        "the items are not contiguous: the strides are [2] and the shape is [3]",
    );
    let complex = DLDataType::scalar(DLDataTypeCode::COMPLEX, 64);
    refused(
        foreign(items(), 0, &[3], &[1], (complex, DLDevice::CPU), none),
        "the items have the type code 5, 64 bits and 1 lanes",
    );
    let pairs = DLDataType::new(DLDataTypeCode::UINT, 16, 2);
    refused(
        foreign(items(), 0, &[3], &[1], (pairs, DLDevice::CPU), none),
        "the items have the type code 1, 16 bits and 2 lanes",
    );
    let metal = DLDevice { device_type: DLDeviceType::METAL, device_id: 0 };
    refused(foreign(items(), 0, &[3], &[1], (U32, metal), none), "the tensor lies on a device of the type 8");
    refused(
        foreign(items(), 0, &[3], &[1], (U32, DLDevice::cuda(0)), none),
        "the tensor lies on a device, and no stream was given",
    );
    // SAFETY: refused before an item is used.
    let error = unsafe { Tensor::import(foreign(items(), 2, &[3], &[1], cpu, none), None) }.unwrap_err();
    assert!(error.to_string().contains("the items, of u32, are at 0x"), "{error}");

    for shape in [[2, 2], [usize::MAX, 2]] {
        let six = Array::from(vec![1_u8; 6]);
        let error = dlpack::export::<parascan::dlpack::dlpark::ffi::DLManagedTensor>(six, &shape, None).map(|_| ());
        let words = format!("dlpack: the shape is {shape:?}, and the array has 6 items");
        assert_eq!(error.unwrap_err().to_string(), words);
    }
}

#[test]
fn what_is_taken() {
    let items = || (0..12).collect::<Vec<u32>>();
    let none = DlpackFlags::empty();
    // An offset; a scalar; sizes of one, whose strides say nothing; no items; booleans; pinned memory.
    let pinned = DLDevice { device_type: DLDeviceType::CUDAHOST, device_id: 0 };
    for (tensor, shape, expected) in [
        (foreign(items(), 8, &[3], &[1], (U32, DLDevice::CPU), none), &[3][..], vec![2, 3, 4]),
        (foreign(items(), 4, &[], &[], (U32, DLDevice::CPU), none), &[], vec![1]),
        (foreign(items(), 0, &[2, 1, 2], &[2, 77, 1], (U32, pinned), none), &[2, 1, 2], vec![0, 1, 2, 3]),
        (foreign(items(), 0, &[2, 0], &[5, 5], (U32, DLDevice::CPU), none), &[2, 0], vec![]),
    ] {
        // SAFETY: the tensor is a live one of this process, and nothing else accesses it.
        let mut tensor = unsafe { Tensor::import(tensor, None) }.unwrap();
        assert_eq!((tensor.shape(), format!("{:?}", tensor.view())), (shape, format!("{expected:?}")));
        assert_eq!(tensor.view_mut().unwrap().len(), expected.len());
    }
    let bools = DLDataType::scalar(DLDataTypeCode::BOOL, 8);
    for (flags, words) in [(DlpackFlags::READ_ONLY, "the tensor may only be read"), (none, "booleans may only be read")]
    {
        let tensor = foreign(vec![0x01_00_01_01], 0, &[4], &[1], (bools, DLDevice::CPU), flags);
        // SAFETY: as above.
        let mut tensor = unsafe { Tensor::import(tensor, None) }.unwrap();
        assert_eq!((tensor.view().ty(), format!("{:?}", tensor.view())), (Type::U8, "[1, 1, 0, 1]".into()));
        assert_eq!(tensor.view_mut().unwrap_err().to_string(), format!("dlpack: {words}"));
    }
}

/// A tensor that is dropped gives its memory back, once.
#[test]
fn ownership() {
    let alive = Arc::new(());
    let mut items = (alive.clone(), vec![7_u32; 3]);
    let data = items.1.as_mut_ptr().cast();
    let mut tensor = Dynamic::new(&[3], &[1]).initialize(Box::new(items)).unwrap();
    tensor.set_data(data).set_dtype(U32).set_device(DLDevice::CPU);
    // SAFETY: the tensor owns the items.
    let tensor: versioned::Dlpack = unsafe { tensor.finish() };
    // SAFETY: the tensor is a live one of this process, and nothing else accesses it.
    let tensor = unsafe { Tensor::import(tensor, None) }.unwrap();
    assert_eq!(Arc::strong_count(&alive), 2);
    drop(tensor);
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// The consumer's stream by the rule of the array API, and its order.
#[test]
fn streams() {
    let Some(stream) = stream() else { return };
    for number in [0, -2, isize::MIN] {
        let array = Array::from(stream.clone_htod(&[1_u32]).unwrap());
        // SAFETY: no stream is named.
        let given = unsafe {
            dlpack::export_to::<parascan::dlpack::dlpark::ffi::DLManagedTensorVersioned>(array, &[1], Some(number))
        };
        assert!(matches!(given, Err(Error::Tensor { .. })));
    }
    // A long chain of work on the array's stream, which the consumer's stream does not see unless it waits.
    let context = stream.context();
    let consumer = context.new_stream().unwrap();
    let default = context.default_stream();
    for round in 0..20 {
        // The legacy default stream by its number, or a stream by its handle.
        let (number, named) = match round % 3 {
            0 => (None, &default),
            1 => (Some(1), &default),
            _ => (Some(consumer.cu_stream() as isize), &consumer),
        };
        let n = 1 << 22;
        let mut x = stream.clone_htod(&vec![1_u32; n]).unwrap();
        for _ in 0..8 {
            parascan::scan::<parascan::Max, u32>().run_in_place(&mut x).unwrap();
        }
        parascan::scan::<parascan::Sum, u32>().run_in_place(&mut x).unwrap();
        // SAFETY: the handle is that of a live stream of this context.
        let given: legacy::Dlpack = unsafe { dlpack::export_to(Array::from(x), &[n], number) }.unwrap();
        // SAFETY: the tensor is a live one of this process, and nothing else accesses it.
        let tensor = unsafe { Tensor::import(given, Some(named)) }.unwrap();
        let last = parascan::dynamic::reduce(Op::Last).run(tensor.view()).unwrap();
        assert_eq!(last.get(), Some(n as u32), "{round}");
    }
}
