//! Every form of call on host memory.

use half::f16;
use parascan::{Last, Max, Sum, scan};
use std::sync::Arc;

#[test]
fn any_memory_that_is_a_slice() {
    let prices = vec![3, 1, 4];
    let highest = scan::<Max, i32>().run(&prices).unwrap();
    let _: &Vec<i32> = &highest;
    assert_eq!(highest, [3, 3, 4]);
    assert_eq!(scan::<Max, i32>().run(&[3, 1, 4]).unwrap(), [3, 3, 4]);
    assert_eq!(scan::<Max, i32>().run(&prices[1..]).unwrap(), [1, 4]);
    let slice: &[i32] = &prices;
    assert_eq!(scan::<Max, i32>().run(slice).unwrap(), [3, 3, 4]);
    assert_eq!(scan::<Max, i32>().run(&slice).unwrap(), [3, 3, 4]);
    let boxed: Box<[i32]> = prices.clone().into();
    assert_eq!(scan::<Max, i32>().run(&boxed).unwrap(), [3, 3, 4]);
    let shared: Arc<[i32]> = prices.clone().into();
    assert_eq!(scan::<Max, i32>().run(&shared).unwrap(), [3, 3, 4]);
    assert_eq!(scan::<Max, i32>().run(&Arc::new(prices)).unwrap(), [3, 3, 4]);
}

#[test]
fn literals_and_elements_are_inferred() {
    assert_eq!(scan::<Sum, u64>().exclusive().init(7).run(&vec![1, 2, 3]).unwrap(), [7, 8, 10]);
    assert_eq!(scan::<Sum, _>().run(&[3u8, 1, 4]).unwrap(), [3, 4, 8]);
    let halves = vec![f16::from_f32(0.5); 4];
    assert_eq!(scan::<Sum, f16>().run(&halves).unwrap(), [0.5, 1.0, 1.5, 2.0].map(f16::from_f32));
    assert_eq!(scan::<Last, i32>().exclusive_from(-1).reverse().run(&[1, 2, 3]).unwrap(), [2, 3, -1]);
}

#[test]
fn into_any_memory() {
    let gains = [1.0, 2.0, 4.0, 8.0];
    let mut returns = [0.0; 4];
    scan::<Sum, f32>().reverse().run_into(&gains, &mut returns).unwrap();
    assert_eq!(returns, [15.0, 14.0, 12.0, 8.0]);

    let prices = vec![3, 1, 4];
    let mut output = vec![0; 3];
    scan::<Max, i32>().run_into(&prices, &mut output).unwrap();
    assert_eq!(output, [3, 3, 4]);
    scan::<Max, i32>().run_into(&prices[1..], &mut output[..2]).unwrap();
    assert_eq!(output, [1, 4, 4]);
    let slice: &mut [i32] = &mut output;
    scan::<Max, i32>().run_into(&prices[..], slice).unwrap();
    assert_eq!(output, [3, 3, 4]);
    let mut slice: &mut [i32] = &mut output[1..];
    scan::<Max, i32>().run_into(&&prices[1..], &mut slice).unwrap();
    assert_eq!(output, [3, 1, 4]);
    let mut boxed: Box<[i32]> = Box::new([0; 3]);
    scan::<Max, i32>().run_into(&prices, &mut boxed).unwrap();
    assert_eq!(*boxed, [3, 3, 4]);
}

#[test]
fn in_place() {
    let mut x = vec![3, 1, 4, 1];
    scan::<Max, i32>().run_in_place(&mut x[1..]).unwrap();
    assert_eq!(x, [3, 1, 4, 4]);
    scan::<Max, i32>().run_in_place(&mut x).unwrap();
    assert_eq!(x, [3, 3, 4, 4]);
    let slice: &mut [i32] = &mut x;
    scan::<Sum, i32>().run_in_place(slice).unwrap();
    assert_eq!(x, [3, 6, 10, 14]);
}

/// The type is open until a workspace is in it.
#[test]
fn a_builder_is_copied() {
    let highest = scan::<Max, i32>().reverse();
    assert_eq!(highest.run(&[3, 1, 4]).unwrap(), [4, 4, 4]);
    assert_eq!(highest.run(&[2, 1]).unwrap(), [2, 1]);
    assert_eq!(highest.reverse().run(&[2, 1]).unwrap(), [2, 2]);
}
