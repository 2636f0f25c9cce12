//! Past 2^32 items: two columns, whose rows are elements, and a panel of 70.

use super::*;
use crate::common::much_memory;
use crate::segmented::long::{assert_scanned, rising, whole_rows};
use parascan::{Max, Sum};
use rayon::prelude::*;

#[test]
fn past_2_to_the_32() {
    let OnDevice { stream, mut workspace, .. } = or_skip!(OnDevice::new());
    let _memory = much_memory();
    let mut rng = Rng::new();
    let n = whole_rows(2).max(whole_rows(70));
    let x = rising(&mut rng, n);
    let input = stream.clone_htod(&x).unwrap();
    let mut output = stream.alloc_zeros::<u8>(n).unwrap();
    let mut got = vec![0; n];
    for columns in [2, 70] {
        let (n, what) = (whole_rows(columns), format!("{columns} columns"));
        let from = input.slice(..n);
        stream.memset_zeros(&mut output).unwrap();
        let scan = scan::<Sum, u8>().columns(columns).workspace(&mut workspace);
        scan.run_into(&from, &mut output.slice_mut(..n)).unwrap();
        stream.memcpy_dtoh(&output.slice(..n), &mut got[..n]).unwrap();
        assert_scanned(&got[..n], &x[..n], u8::wrapping_add, |i| i.checked_sub(columns), &what);
        // The last row of the scan has the sums.
        let sums = reduce::<Sum, u8>().columns(columns).workspace(&mut workspace).run(&from).unwrap();
        assert_same(&stream.clone_dtoh(&sums).unwrap(), &got[n - columns..n], &what);
        let greatest = reduce::<Max, u8>().columns(columns).workspace(&mut workspace).run(&from).unwrap();
        let of_rows = |rows: &[u8]| column_totals::<Max, u8>(rows, columns, None).expect("it has an identity");
        let of_both = |a: Vec<u8>, b: Vec<u8>| of_rows(&[a, b].concat());
        let expected = x[..n].par_chunks(columns << 16).map(of_rows).reduce(|| vec![0; columns], of_both);
        assert_same(&stream.clone_dtoh(&greatest).unwrap(), &expected, &what);
    }
    let all = reduce::<Max, u8>().columns(1).workspace(&mut workspace).run(&input).unwrap();
    assert_eq!(stream.clone_dtoh(&all).unwrap(), [255], "the greatest item is nearly the last");
}
