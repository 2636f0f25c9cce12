//! The text of the unit of pack and expand.

use super::tuning::{EXPAND, PACK, SegmentTile};
use crate::cuda::unit::UnitKey;

pub(crate) const SEGMENTS_KEY: UnitKey = UnitKey::new("segments");

/// The text of the unit of pack and expand.
pub(crate) fn segments_source() -> String {
    let tile = |name: &str, SegmentTile { warps, tile, cost }: SegmentTile| {
        format!("template <class Offset> using {name} = SegmentTile<Offset, {warps}, {tile}, {cost}>;\n")
    };
    format!(
        "#include \"segments/segments.cuh\"\n{}{}#include \"segments/kernels.cuh\"\n",
        tile("PackTile", PACK),
        tile("ExpandTile", EXPAND)
    )
}
