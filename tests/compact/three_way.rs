//! Three-way partitions, against three loops.

use super::*;

fn check<T: Sample + Ordered, P: Predicate<T> + Debug, Q: Predicate<T> + Debug>(
    device: &mut Option<(Arc<CudaStream>, Workspace)>,
    items: &[T],
    (p, q): (P, Q),
    skips: [usize; 2],
) {
    let n = items.len();
    let what = (std::any::type_name::<T>(), n, p, q, skips);
    let part = |keeps: &dyn Fn(T) -> bool| -> Vec<T> { items.iter().copied().filter(|&x| keeps(x)).collect() };
    let parts = [part(&|x| p.keeps(x)), part(&|x| !p.keeps(x) && q.keeps(x)), part(&|x| !p.keeps(x) && !q.keeps(x))];
    let lens = parts.each_ref().map(|part| part.len());
    let expected_counts = [lens[0] as u64, lens[1] as u64];
    let three = partition::<T>().keep(p).then(q);

    // On the host: into one buffer, into three just long enough, and into one that is not.
    let (mut all, mut counts) = (items.to_vec(), [9, 9]);
    three.run_into(items, &mut all, &mut counts).unwrap();
    assert_eq!(counts, expected_counts, "{what:?}");
    assert_same(&all, &parts.concat(), &what);
    let mut apart = lens.map(|len| vec![items[0]; len]);
    let [a, b, c] = &mut apart;
    three.run_apart_into(items, a, b, c, &mut counts).unwrap();
    for (got, expected) in apart.iter().zip(&parts) {
        assert_same(got, expected, &what);
    }
    if lens[1] > 0 {
        let [a, b, c] = &mut apart;
        let error = three.run_apart_into(items, a, &mut b[1..], c, &mut counts).unwrap_err();
        assert!(matches!(error, Error::Size { needed, .. } if needed == lens[1]), "{error}");
    }

    let (stream, workspace) = or_skip!(device);
    let [skip_in, skip_out] = skips;
    let padded = |skip: usize, n: usize| {
        let mut all = vec![items[n / 2]; skip + n + 3];
        all[skip..skip + n].copy_from_slice(&items[..n]);
        all
    };
    let input = stream.clone_htod(&padded(skip_in, n)).unwrap();
    let view = input.slice(skip_in..skip_in + n);
    let guard = padded(skip_out, n);
    let mut output = stream.clone_htod(&guard).unwrap();
    let mut counts = stream.clone_htod(&[7_u64; 2]).unwrap();
    let mut room = output.slice_mut(skip_out..skip_out + n);
    three.workspace(workspace).run_into(&view, &mut room, &mut counts).unwrap();
    assert_eq!(stream.clone_dtoh(&counts).unwrap(), expected_counts, "{what:?}");
    let got = stream.clone_dtoh(&output).unwrap();
    assert_same(&got[skip_out..skip_out + n], &parts.concat(), &("on the device", what));
    assert_same(&got[..skip_out], &guard[..skip_out], &("before", what));
    assert_same(&got[skip_out + n..], &guard[skip_out + n..], &("after", what));

    // Into three buffers, the second too short.
    let rooms = [lens[0], lens[1] / 2, lens[2]];
    let mut apart = rooms.map(|room| stream.clone_htod(&padded(skip_out, room.min(n))).unwrap());
    let [a, b, c] = &mut apart;
    three
        .workspace(workspace)
        .run_apart_into(
            &view,
            &mut a.slice_mut(skip_out..skip_out + rooms[0]),
            &mut b.slice_mut(skip_out..skip_out + rooms[1]),
            &mut c.slice_mut(skip_out..skip_out + rooms[2]),
            &mut counts,
        )
        .unwrap();
    assert_eq!(stream.clone_dtoh(&counts).unwrap(), expected_counts, "{what:?}");
    for ((got, expected), room) in apart.iter().zip(&parts).zip(rooms) {
        let got = stream.clone_dtoh(got).unwrap();
        assert_same(&got[skip_out..skip_out + room], &expected[..room], &("apart", what));
        assert_same(&got[..skip_out], &padded(skip_out, room)[..skip_out], &("before a part", what));
        assert_same(&got[skip_out + room..], &padded(skip_out, room)[skip_out + room..], &("after a part", what));
    }
}

fn every<T: Sample + Ordered>()
where
    Above<T>: Predicate<T>,
    Below<T>: Predicate<T>,
    Finite: Predicate<T>,
    NonZero: Predicate<T>,
{
    let mut device = stream().map(|stream| (stream.clone(), Workspace::new(&stream)));
    let mut rng = Rng::new();
    let slice = 3072 / size_of::<T>();
    let sizes = [1, 31, 33, slice, 5 * slice + 1, (512 << 10) / size_of::<T>() + 77, 10_000 + rng.below(300_000)];
    // The host tells no longer ones apart.
    let longest = device.as_ref().map(|_| (8 << 20) / size_of::<T>() + 99);
    for (k, n) in sizes.into_iter().chain(longest).enumerate() {
        let items: Vec<T> = data(&mut rng, if k % 2 == 0 { Draw::Any } else { Draw::Whole }, n);
        let (v, w) = (items[rng.below(n)], items[rng.below(n)]);
        let skips = [[0, 0], [1, 3], [5, 0], [0, 1]][k % 4];
        check(&mut device, &items, (Above(v), Below(w)), skips);
        check(&mut device, &items, (Not(Finite), NonZero), skips);
    }
}

macro_rules! stamp { ($($t:ident)*) => { $( #[test] fn $t() { every::<$t>(); } )* } }
stamp! { f32 u64 f16 u8 i32 }

/// A short walk for compute-sanitizer. The longest input is more than a device holds at once, so it
/// takes two launches.
#[test]
fn sanitize() {
    let stream = or_skip!(stream());
    let mut device = Some((stream.clone(), Workspace::new(&stream)));
    let mut rng = Rng::new();
    for (n, skips) in [(1, [0, 0]), (3000, [1, 3]), (140_000, [0, 1]), (2_200_000, [3, 0]), (6_300_000, [0, 1])] {
        let items: Vec<u32> = data(&mut rng, Draw::Any, n);
        check(&mut device, &items, (Above(0xc000_0000), Below(0x4000_0000)), skips);
    }
}
