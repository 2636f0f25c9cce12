//! Elements of 3 and 20 bytes, which tile no vector, on the device: inputs and outputs are views that begin at item 1,
//! or at another.

use super::*;
use crate::segmented::sizes::{AddFirst, Five, Three};

/// Matrices of one column, of a few and of several panels, of numbers of rows around three tiles, and of 5 MiB.
fn walk<T: Sample>(engine: &mut OnDevice, columns: &[usize])
where
    AddFirst: Operator<T>,
{
    let mut rng = Rng::new();
    let (rng, size) = (&mut rng, size_of::<T>());
    let all = options::<AddFirst, T>(rng, Draw::Any);
    for &columns in columns {
        let whole = 3 * OnDevice::tile(sizes::<AddFirst, T>(), columns);
        let long = (5 << 20) / (size * columns) + rng.below(100);
        for (k, rows) in [whole - 1, whole, whole + 1, long].into_iter().enumerate() {
            let x: Vec<T> = data(rng, Draw::Any, rows * columns);
            let skip = [1, skip(rng)][k % 2];
            let (source, room) = (Guarded::new(rng, skip, &x), Guarded::room(rng, skip, x.len()));
            for reverse in [false, true] {
                let options = Options { reverse, ..all[rng.below(all.len())] };
                let what = (type_name::<T>(), rows, columns, skip, options);
                let scan = builder::<AddFirst, T>(options).columns(columns);
                let expected = columns_oracle::<AddFirst, T>(&x, columns, options);
                let (mut data, mut output) = (engine.put(&source.all), engine.put(&room.all));
                let from = data.slice(source.items.clone());
                engine.scan_into(scan, &from, &mut output.slice_mut(room.items.clone())).unwrap();
                room.assert_holds(&engine.get(&output), &expected, &what);
                source.assert_holds(&engine.get(&data), &x, &("the input", what));
                engine.scan_in_place(scan, &mut data.slice_mut(source.items.clone())).unwrap();
                source.assert_holds(&engine.get(&data), &expected, &("in place", what));
            }
            for init in [None, Some(x[0])] {
                let what = (type_name::<T>(), rows, columns, skip, init);
                let reduce = reduce::<AddFirst, T>().columns(columns);
                let reduce = init.map_or(reduce, |init| reduce.init(init));
                let expected = column_totals::<AddFirst, T>(&x, columns, init).expect("there are rows");
                let room = Guarded::room(rng, skip, columns);
                let (data, mut output) = (engine.put(&source.all), engine.put(&room.all));
                let from = data.slice(source.items.clone());
                engine.reduce_into(reduce, &from, &mut output.slice_mut(room.items.clone())).unwrap();
                room.assert_holds(&engine.get(&output), &expected, &what);
            }
        }
    }
}

// Rows of 2 columns of 3 bytes are elements of the kernels of scan and reduce. Wider matrices are cut into panels of up
// to 32 columns, those of 20 bytes into panels of up to 16.
#[test]
fn of_3_bytes() {
    let mut engine = or_skip!(OnDevice::new());
    walk::<Three<u8>>(&mut engine, &[1, 2, 3, 43, 100]);
}
#[test]
fn of_20_bytes() {
    let mut engine = or_skip!(OnDevice::new());
    walk::<Five>(&mut engine, &[1, 2, 17, 50]);
}
