//! Every form of call on device memory.

use crate::common::stream;
use parascan::cudarc::driver::{CudaSlice, CudaView, CudaViewMut};
use parascan::{Max, Sum, Workspace, scan};
use std::sync::Arc;

#[test]
fn any_memory_of_cudarc() {
    let stream = or_skip!(stream());
    let read = |x: &CudaSlice<i32>| stream.clone_dtoh(x).unwrap();
    let mut prices: CudaSlice<i32> = stream.clone_htod(&[3, 1, 4]).unwrap();
    let highest = scan::<Max, i32>().run(&prices).unwrap();
    let _: &CudaSlice<i32> = &highest;
    assert_eq!(read(&highest), [3, 3, 4]);
    assert_eq!(read(&scan::<Max, i32>().run(&&prices).unwrap()), [3, 3, 4]);
    assert_eq!(read(&scan::<Max, i32>().run(&prices.slice(1..)).unwrap()), [1, 4]);
    let view: CudaView<'_, i32> = prices.as_view();
    assert_eq!(read(&scan::<Max, i32>().run(&view).unwrap()), [3, 3, 4]);
    let view: CudaViewMut<'_, i32> = prices.as_view_mut();
    assert_eq!(read(&scan::<Max, i32>().run(&view).unwrap()), [3, 3, 4]);
    let shared: Arc<CudaSlice<i32>> = Arc::new(prices);
    assert_eq!(read(&scan::<Max, i32>().run(&shared).unwrap()), [3, 3, 4]);
    assert_eq!(read(&scan::<Sum, _>().run(&highest).unwrap()), [3, 6, 10]);
}

#[test]
fn into_any_memory() {
    let stream = or_skip!(stream());
    let prices: CudaSlice<i32> = stream.clone_htod(&[3, 1, 4]).unwrap();
    let mut output: CudaSlice<i32> = stream.clone_htod(&[-1, -1, -1]).unwrap();
    let read = |x: &CudaSlice<i32>| stream.clone_dtoh(x).unwrap();
    scan::<Max, i32>().run_into(&prices, &mut output).unwrap();
    assert_eq!(read(&output), [3, 3, 4]);
    scan::<Max, i32>().run_into(&prices.slice(1..), &mut output.slice_mut(..2)).unwrap();
    assert_eq!(read(&output), [1, 4, 4]);
    let mut view: CudaViewMut<'_, i32> = output.slice_mut(1..);
    scan::<Max, i32>().run_into(&prices.slice(..2), &mut view).unwrap();
    assert_eq!(read(&output), [1, 3, 3]);
    scan::<Sum, i32>().run_in_place(&mut output).unwrap();
    assert_eq!(read(&output), [1, 4, 7]);
    scan::<Sum, i32>().run_in_place(&mut output.slice_mut(1..)).unwrap();
    assert_eq!(read(&output), [1, 4, 11]);
}

#[test]
fn on_a_stream_and_with_a_workspace() {
    let stream = or_skip!(stream());
    let other = stream.context().new_stream().unwrap();
    let prices: CudaSlice<i32> = stream.clone_htod(&[3, 1, 4]).unwrap();
    let mut output: CudaSlice<i32> = stream.clone_htod(&[-1, -1, -1]).unwrap();
    let on = scan::<Max, i32>().exclusive().on(&other).reverse();
    let result = on.run(&prices).unwrap();
    assert!(Arc::ptr_eq(result.stream(), &other), "the result belongs to the stream that was asked for");
    assert_eq!(stream.clone_dtoh(&result).unwrap(), [4, 4, i32::MIN]);
    on.run_into(&prices.as_view(), &mut output.as_view_mut()).unwrap(); // Copy
    assert_eq!(stream.clone_dtoh(&output).unwrap(), [4, 4, i32::MIN]);

    let mut workspace = Workspace::new(&stream);
    scan::<Max, i32>().workspace(&mut workspace).run_into(&prices, &mut output).unwrap();
    assert_eq!(stream.clone_dtoh(&output).unwrap(), [3, 3, 4]);
    scan::<Sum, i32>().workspace(&mut workspace).run_in_place(&mut output).unwrap();
    assert_eq!(stream.clone_dtoh(&output).unwrap(), [3, 6, 10]);
}
