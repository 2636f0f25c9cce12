//! Calls that return new memory: as long as the result, with the contents that the calls into the
//! caller's memory write.

use super::*;
use parascan::sort;

fn check(device: &mut Option<(Arc<CudaStream>, Workspace)>, items: &[u32], payload: &[u16]) {
    let n = items.len();
    let split = u32::MAX / 2;
    let (selected, rejected): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| items[i] > split);
    let (equal, below): (Vec<usize>, Vec<usize>) = rejected.iter().partition(|&&i| items[i] == split);
    let starts: Vec<usize> = (0..n).filter(|&i| i == 0 || items[i] != items[i - 1]).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&i| items[i]);
    let both = [selected.clone(), rejected].concat();
    let three = [selected.clone(), equal.clone(), below].concat();
    let of = |order: &[usize]| -> (Vec<u32>, Vec<u16>) {
        (order.iter().map(|&i| items[i]).collect(), order.iter().map(|&i| payload[i]).collect())
    };

    let above = partition::<u32>().keep(Above(split));
    assert_eq!(compact::<u32>().keep(Above(split)).run_pairs(items, payload).unwrap(), of(&selected));
    assert_eq!(unique::<u32>().run_pairs(items, payload).unwrap(), of(&starts));
    assert_eq!(sort::<u32>().run_pairs(items, payload).unwrap(), of(&order));
    assert_eq!(above.run(items).unwrap(), (of(&both).0, selected.len()));
    assert_eq!(above.then(Equal(split)).run(items).unwrap(), (of(&three).0, [selected.len(), equal.len()]));

    let (stream, workspace) = or_skip!(device);
    let (x, v) = (stream.clone_htod(items).unwrap(), stream.clone_htod(payload).unwrap());
    let host =
        |(x, v): (CudaSlice<u32>, CudaSlice<u16>)| (stream.clone_dtoh(&x).unwrap(), stream.clone_dtoh(&v).unwrap());
    assert_eq!(
        host(compact::<u32>().keep(Above(split)).workspace(workspace).run_pairs(&x, &v).unwrap()),
        of(&selected)
    );
    assert_eq!(host(unique::<u32>().workspace(workspace).run_pairs(&x, &v).unwrap()), of(&starts));
    assert_eq!(host(sort::<u32>().workspace(workspace).run_pairs(&x, &v).unwrap()), of(&order));
    let (got, count) = above.workspace(workspace).run(&x).unwrap();
    assert_eq!((stream.clone_dtoh(&got).unwrap(), count), (of(&both).0, selected.len()));
    let (got, counts) = above.then(Equal(split)).workspace(workspace).run(&x).unwrap();
    assert_eq!((stream.clone_dtoh(&got).unwrap(), counts), (of(&three).0, [selected.len(), equal.len()]));
}

#[test]
fn pairs_and_parts() {
    let mut device = stream().map(|stream| (stream.clone(), Workspace::new(&stream)));
    let mut rng = Rng::new();
    for n in [0, 1, 1000, 100_000] {
        let values = [0, 7, u32::MAX / 2, u32::MAX / 2 + 1, u32::MAX];
        let items: Vec<u32> = (0..n).map(|_| values[rng.below(values.len())]).collect();
        check(&mut device, &items, &noise::<u16>(&mut rng, n));
    }
}

/// A payload that is too short is an error.
#[test]
fn short_payload() {
    let refused = |result: Result<(Vec<u32>, Vec<u8>), Error>| {
        assert!(matches!(result, Err(Error::Size { found: 2, needed: 3, .. })), "{result:?}");
    };
    refused(sort::<u32>().run_pairs(&[3, 1, 2], b"ab"));
    refused(compact::<u32>().keep(NonZero).run_pairs(&[3, 1, 2], b"ab"));
    refused(unique::<u32>().run_pairs(&[3, 1, 2], b"ab"));
}
