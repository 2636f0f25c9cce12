//! Stable ranks of a radix sort's tile, for any order of lanes in one atomic addition. CUDA
//! promises no order, and the GPUs tested always add in lane order. So the test edits the template
//! to add odd lanes first.

use crate::common::edit::{Edit, once, one_text};
use crate::common::{Rng, address, context, p};
use parascan::cuda::Kernels;

const TYPES: &str = include_str!("../../cuda-templates/core/types.cuh");
const TEMPLATES: [&str; 2] =
    [include_str!("../../cuda-templates/core/warp_scan.cuh"), include_str!("../../cuda-templates/sort/radix.cuh")];

/// Ranks tiles of `ROWS` rows by `DIGITS` values from bit 8 on, with source indices or keys-only. `again` counts the
/// tiles that are ranked twice.
const KERNEL: &str = r#"
typedef RadixTile<u32, PAYLOAD, DIGITS, ROWS, RANKING, DIGITS> Tile;

template <class T> __device__ void sort_tile(T t, u32 first, const u32 *in, u32 *out, u32 *at, u32 *again) {
    SortedDigit digit{{8, DIGITS - 1}, 256 * DIGITS - 1};
    auto put = [=](u64 place, u32 key) { out[first + place] = key; };
    t.load(in + first, Encoded());
    t.rank(digit);
    t.scatter([](u32, u32) {}, [&](u32 d, u32) { return u64(t.s.begin[d]); });
    if (__syncthreads_or(t.store(digit, put))) {
        if (threadIdx.x == 0) atomicAdd(again, 1);
        t.rank_again(digit, in + first, Encoded());
        t.store(digit, put);
    }
    if constexpr (T::HAS_VALUES) t.store_values([=](u64 place, u32 i) { at[first + place] = first + i; });
}

extern "C" __global__ void subject(const u32 *in, u32 *out, u32 *at, u32 n, u32 *again) {
    __shared__ Tile::Shared shared;
    u32 first = blockIdx.x * Tile::TILE;
    sort_tile(Tile(shared, min(n - first, Tile::TILE)), first, in, out, at, again);
}
"#;

/// Odd lanes are served before even ones, in a whole tile and in a partial one.
const ODD_FIRST: Edit = once(
    "            for (u32 i = 0; i < ITEMS; i++) rank_one(i, digit_of(i));",
    "            for (u32 i = 0; i < ITEMS; i++)
                for (u32 odd = 2; odd-- > 0; __syncwarp())
                    if (lane_id() % 2 == odd) rank_one(i, digit_of(i));",
);
const ODD_FIRST_OF_SOME: Edit = once(
    "                    if (is_there(i)) rank_one(i, digit_of(i));
                    else position[i]",
    "                    for (u32 odd = 2; odd-- > 0; __syncwarp())
                        if (is_there(i) && lane_id() % 2 == odd) rank_one(i, digit_of(i));
                    if (!is_there(i)) position[i]",
);
/// The block does not compare neighbours.
const NO_CHECK: Edit = once("disorder |= there && j > 0 && own < previous;", "");

#[test]
fn lanes_in_any_order() {
    for rows in [7, 8] {
        in_any_order(256, rows, true); // 8 rows leave a word out after every 32
        in_any_order(256, rows, false);
    }
    in_any_order(512, 2, true); // as in a single step
}

/// Tiles of as many threads as digits. `is_paired`: with source indices. Else the keys of a tile are in order of their
/// first digit.
fn in_any_order(digits: usize, rows: usize, is_paired: bool) {
    let context = or_skip!(context());
    let tile = digits * rows;
    let stream = context.new_stream().unwrap();
    let text = format!("{}#include \"sort/contract.cuh\"\n{}", one_text(&[TYPES]), one_text(&TEMPLATES));
    let mut rng = Rng::new();
    let n = 20 * tile + 777;
    // The keys have few digits, so many lanes share one. The ninth bit of a digit is random.
    let mut keys: Vec<u32> = (0..n).map(|_| rng.next() as u32 & 0xffff_07ff).collect();
    if !is_paired {
        keys.chunks_mut(tile).for_each(|part| part.sort_by_key(|&key| key & 255));
    }
    let mut expected: Vec<u32> = (0..n as u32).collect();
    for part in expected.chunks_mut(tile) {
        part.sort_by_key(|&i| keys[i as usize] as usize >> 8 & (digits - 1));
    }
    // Keys-only differ above the digit, where their order is not seen.
    let seen = |keys: &[u32]| keys.iter().map(|&key| key as usize & (256 * digits - 1)).collect::<Vec<usize>>();
    let expected_keys: Vec<u32> = expected.iter().map(|&i| keys[i as usize]).collect();
    let tile_of = if is_paired { ["Payload<u32>", "CHECKED"] } else { ["NoPayload", "SORTED"] };
    let odd_first = [ODD_FIRST, ODD_FIRST_OF_SOME];
    let unchecked = [ODD_FIRST, ODD_FIRST_OF_SOME, NO_CHECK];
    for (edits, is_repaired, is_right) in
        [(&[][..], false, true), (&odd_first[..], true, true), (&unchecked[..], false, false)]
    {
        let edited = edits.iter().fold(text.clone(), |text, edit| edit.apply(&text));
        let constants = format!("typedef {} PAYLOAD;\nconstexpr Ranking RANKING = {};", tile_of[0], tile_of[1]);
        let text = format!("{edited}\nconstexpr u32 DIGITS = {digits}, ROWS = {rows};\n{constants}\n{KERNEL}");
        let kernels = Kernels::compile(&context, "ranks", &text, &["subject"]).unwrap();
        let input = stream.clone_htod(&keys).unwrap();
        let (output, at) = (stream.alloc_zeros::<u32>(n).unwrap(), stream.alloc_zeros::<u32>(n).unwrap());
        let again = stream.alloc_zeros::<u32>(1).unwrap();
        let addresses = [&input, &output, &at, &again].map(|memory| address(memory, &stream));
        let length = n as u32;
        let [input, to, places, counter] = &addresses;
        let arguments = [p(input), p(to), p(places), p(&length), p(counter)];
        // SAFETY: the arguments are the kernel's, in order; the buffers outlive it.
        unsafe { kernels.launch(0, n.div_ceil(tile) as u32, digits as u32, stream.cu_stream(), &arguments) }.unwrap();
        let (got, at) = (stream.clone_dtoh(&output).unwrap(), stream.clone_dtoh(&at).unwrap());
        assert_eq!(seen(&got) == seen(&expected_keys), is_right, "keys in order");
        if is_paired {
            assert_eq!(at == expected, is_right, "where keys were");
            assert!(got.iter().zip(&at).all(|(&key, &i)| key == keys[i as usize]), "keys and where they were");
        }
        // Without an edit the order is the GPU's.
        if !edits.is_empty() {
            let tiles = n.div_ceil(tile) as u32;
            assert_eq!(stream.clone_dtoh(&again).unwrap()[0], if is_repaired { tiles } else { 0 });
        }
    }
}
