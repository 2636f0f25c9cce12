//! The guards of each join and of the tiles, the edits that remove them, and the pauses under which that shows.

use super::Check::{Memory, Operands, Outside, Progress, Results};
use super::Guard;
use crate::common::edit::{once, twice};

const NEVER: &str = "0";
/// Some tiles publish late, each later than the ones before.
const LATE_TILES: &str = "place == PUBLISH && at % 8 == 7 ? 1000 * min(at, 300u) : 0";
/// A tile polls for its prefix late.
const LATE_READERS: &str = "place == POLL ? 20000 : 0";
/// A pause between the words of a value.
const SLOW_WORDS: &str = "place == WORD ? 3000 : 0";
/// The server's warps post prefixes late.
const SLOW_CHAIN: &str = "place == POST ? 20000 : 0";

/// The first tiles publish after all others, and one of them polls late.
const LATE_COUNTS: &str = "place == PUBLISH && at < 32 || place == POLL && at == 1 ? 100000 : 0";

pub(super) const STATUS_WORDS: &[Guard] = &[
    Guard {
        name: "value and mark are written in one access",
        pause: NEVER,
        without: once(
            "store_relaxed(word + i, mark(words.word[i], 1));",
            "store_relaxed(word + i, mark(0, 1)), __nanosleep(3000), store_relaxed(word + i, mark(words.word[i], 1));",
        ),
        fails: &[Results],
    },
    Guard {
        name: "each word of a value has its own mark",
        pause: SLOW_WORDS,
        without: once("full &= seen[i] >> 32 == mark;", "full &= i > 0 || seen[i] >> 32 == mark;"),
        fails: &[Results],
    },
];

pub(super) const OF_SERVER: &[Guard] = &[
    Guard {
        name: "blocks take tickets, in whatever order they start",
        pause: NEVER,
        without: once("shared.ticket = add_relaxed(ticket, 1);", "shared.ticket = tiles - blockIdx.x;"),
        fails: &[Progress],
    },
    Guard {
        name: "the last ticket puts the counter back",
        pause: NEVER,
        without: once("if (shared.ticket == last_ticket()) *ticket = 0;", ""),
        fails: &[Memory, Results],
    },
    Guard {
        name: "the server empties aggregates",
        pause: NEVER,
        without: once("if (lane < size) aggregates[tile].clear();", ""),
        fails: &[Memory, Results],
    },
    Guard {
        name: "the server empties no more than the aggregates",
        pause: LATE_READERS,
        without: once("if (lane < size) aggregates[tile].clear();", "aggregates[tile].clear();"),
        fails: &[Progress],
    },
    Guard {
        name: "a reader empties its prefix",
        pause: NEVER,
        without: once("prefix_of(tile).clear();", ""),
        fails: &[Memory, Results],
    },
    Guard {
        name: "the first tile gets no prefix, for it reads none",
        pause: NEVER,
        without: once("if (tile > 0 && lane >= served", "if (lane >= served"),
        fails: &[Memory],
    },
    Guard {
        name: "a prefix is published once",
        pause: LATE_TILES,
        without: once("lane >= served && lane < next) prefix_of", "lane < next) prefix_of"),
        fails: &[Memory],
    },
    Guard {
        name: "a prefix is published when all tiles before have come",
        pause: LATE_TILES,
        without: once("lane >= served && lane < next) prefix_of", "lane >= served) prefix_of"),
        fails: &[Results],
    },
    Guard {
        name: "only tiles that all before have come to count as there",
        pause: LATE_TILES,
        without: once("__ffs(missing) - 1", "__popc(~missing)"),
        fails: &[Results],
    },
    Guard {
        name: "aggregates are scanned when they have come",
        pause: LATE_TILES,
        without: once("lane >= distance && lane < there", "lane >= distance"),
        fails: &[Operands],
    },
    Guard {
        name: "prefixes are combined when the aggregates have come",
        pause: LATE_TILES,
        without: once("else if (base.some && lane < next)", "else if (base.some)"),
        fails: &[Operands],
    },
    Guard {
        name: "a warp stays until all tiles of its group have come",
        pause: "place == PUBLISH && at == 31 ? 300000 : 0",
        without: once("there < size || served < size", "served < size"),
        fails: &[Memory, Progress],
    },
    Guard {
        name: "a warp stays until all tiles of its group are served",
        pause: SLOW_CHAIN,
        without: once("there < size || served < size", "there < size"),
        fails: &[Progress],
    },
    Guard {
        name: "a group's prefix is handed on when the group is whole",
        pause: LATE_TILES,
        without: once("if (there == WARP && lane == WARP - 1)", "if (lane == WARP - 1)"),
        fails: &[Results],
    },
    Guard {
        name: "a mailbox says which group it is for",
        pause: SLOW_CHAIN,
        without: once(
            "return Status<C>::read(seen, mark, value);",
            "return Status<C>::read(seen, u32(seen[0] >> 32), value) && seen[0] >> 32 != 0;",
        ),
        fails: &[Results],
    },
    Guard {
        name: "mailboxes are emptied before the first group",
        pause: NEVER,
        without: once("if (threadIdx.x < SERVERS) shared.upto[threadIdx.x].clear();", ""),
        fails: &[Results],
    },
    Guard {
        name: "the first group has no prefix without `init`",
        pause: NEVER,
        without: once("after<Operator>(base, upto)", "Operator::combine(base.value, upto)"),
        fails: &[Operands],
    },
    Guard {
        name: "order, among the aggregates of a group",
        pause: NEVER,
        without: once("upto = Operator::combine(earlier, upto)", "upto = Operator::combine(upto, earlier)"),
        fails: &[Results],
    },
    Guard {
        name: "order, from group to group",
        pause: NEVER,
        without: once("after<Operator>(base, upto)", "after<Operator>(Maybe<Carry>{upto, base.some}, base.value)"),
        fails: &[Results],
    },
    Guard {
        name: "order, from a group to its tiles",
        pause: NEVER,
        without: once("Operator::combine(base.value, before)", "Operator::combine(before, base.value)"),
        fails: &[Results],
    },
];

pub(super) const OF_CHAIN: &[Guard] = &[
    Guard {
        name: "blocks take tickets, in whatever order they start",
        pause: NEVER,
        without: once("shared.tile = add_relaxed(ticket, 1);", "shared.tile = tiles - 1 - blockIdx.x;"),
        fails: &[Progress],
    },
    Guard {
        name: "the last ticket puts the counter back",
        pause: NEVER,
        without: once("if (shared.tile == tiles - 1) *ticket = 0;", ""),
        fails: &[Memory, Progress],
    },
    Guard {
        name: "a reader empties its word",
        pause: NEVER,
        without: once("handed[tile].clear();", ""),
        fails: &[Memory, Results],
    },
    Guard {
        name: "the first tile waits for nobody",
        pause: NEVER,
        without: once(
            "if (lane == 0 && tile > 0) {\n            while (!handed",
            "if (lane == 0) {\n            while (!handed",
        ),
        fails: &[Progress],
    },
    Guard {
        name: "the last tile hands on to nobody",
        pause: NEVER,
        without: once("if (lane == 0 && !is_last(tile))", "if (lane == 0)"),
        fails: &[Memory],
    },
    Guard {
        name: "the first tile has no prefix without `init`",
        pause: NEVER,
        without: once(
            "publish(after<Operator>(before, aggregate))",
            "publish(Operator::combine(before.value, aggregate))",
        ),
        fails: &[Operands],
    },
    Guard {
        name: "order, from tile to tile",
        pause: NEVER,
        without: once(
            "after<Operator>(before, aggregate)",
            "after<Operator>(Maybe<Carry>{aggregate, before.some}, before.value)",
        ),
        fails: &[Results],
    },
];

/// Guards that both forms of look-back have, with the same text.
pub(super) const OF_GROUPS: &[Guard] = &[
    Guard {
        name: "blocks take tickets, in whatever order they start",
        pause: NEVER,
        without: once("shared.tile = add_relaxed(ticket, 1);", "shared.tile = tiles - 1 - blockIdx.x;"),
        fails: &[Progress],
    },
    Guard {
        name: "the last ticket puts the counter back",
        pause: NEVER,
        without: once("if (shared.tile == tiles - 1) *ticket = 0;", ""),
        fails: &[Memory, Progress],
    },
    Guard {
        name: "the count of retired tiles is put back",
        pause: NEVER,
        without: twice("retired[group] = 0;", ";"),
        fails: &[Memory, Results],
    },
    Guard {
        name: "the last tile to retire empties the words, no other",
        pause: LATE_TILES,
        without: twice(
            "add_acquire_release(retired + group, 1) == size - 1",
            "add_acquire_release(retired + group, 1) == 0",
        ),
        fails: &[Progress],
    },
    Guard {
        name: "the last tile hands on to no group",
        pause: LATE_TILES,
        without: twice(" && tile + 1 < tiles)", ")"),
        fails: &[Memory],
    },
];

pub(super) const OF_LOOK_BACK: &[Guard] = &[
    Guard {
        name: "aggregates are emptied",
        pause: NEVER,
        without: once("aggregates[first + i].clear();", ";"),
        fails: &[Memory, Results],
    },
    Guard {
        name: "prefixes are emptied",
        pause: NEVER,
        without: once("prefixes[group].clear();", ""),
        fails: &[Memory, Results],
    },
    Guard {
        name: "a tile waits for no later tile",
        pause: NEVER,
        without: once("if (i < mine) all &=", "all &="),
        fails: &[Progress],
    },
    Guard {
        name: "order, in a lane",
        pause: NEVER,
        without: once("Operator::combine(part[0], part[i])", "Operator::combine(part[i], part[0])"),
        fails: &[Results],
    },
    Guard {
        name: "order, from lane to lane",
        pause: NEVER,
        without: once("x = Operator::combine(x, later)", "x = Operator::combine(later, x)"),
        fails: &[Results],
    },
    Guard {
        name: "order, the last tile of a group",
        pause: NEVER,
        without: once(
            "closes(tile) ? Operator::combine(before, aggregate)",
            "closes(tile) ? Operator::combine(aggregate, before)",
        ),
        fails: &[Results],
    },
    Guard {
        name: "order, from group to group",
        pause: NEVER,
        without: once(
            "after<Operator>(prefix, upto)",
            "after<Operator>(Maybe<Carry>{upto, prefix.some}, prefix.value)",
        ),
        fails: &[Results],
    },
    Guard {
        name: "order, from a group to its tiles",
        pause: NEVER,
        without: once(
            "prefix.value = after<Operator>(prefix, before)",
            "prefix.value = after<Operator>(Maybe<Carry>{before, prefix.some}, prefix.value)",
        ),
        fails: &[Results],
    },
];

pub(super) const OF_COLUMNS: &[Guard] = &[
    Guard {
        name: "aggregates are emptied",
        pause: NEVER,
        without: once("aggregates[u64(first) * COLUMNS + i].clear();", ";"),
        fails: &[Memory, Results],
    },
    Guard {
        name: "prefixes are emptied",
        pause: NEVER,
        without: once("prefixes[u64(group) * COLUMNS + i].clear();", ";"),
        fails: &[Memory, Results],
    },
    Guard {
        name: "order, from tile to tile",
        pause: NEVER,
        without: once("Operator::combine(before, one)", "Operator::combine(one, before)"),
        fails: &[Results],
    },
    Guard {
        name: "order, the last tile of a group",
        pause: NEVER,
        without: once("publish(Operator::combine(before, aggregate))", "publish(Operator::combine(aggregate, before))"),
        fails: &[Results],
    },
];

pub(super) const OF_COOPERATIVE: &[Guard] = &[
    Guard {
        name: "words are emptied",
        pause: NEVER,
        without: once("aggregates[i].clear();", ";"),
        fails: &[Memory, Results],
    },
    Guard {
        name: "the count of retired tiles is put back",
        pause: NEVER,
        without: once("*retired = 0;", ";"),
        fails: &[Memory, Results],
    },
    Guard {
        name: "the last tile to retire empties the words, not the first",
        pause: LATE_COUNTS,
        without: once("add_acquire_release(retired, 1) == tiles - 1", "add_acquire_release(retired, 1) == 0"),
        fails: &[Progress],
    },
    Guard {
        name: "the last tile to retire empties the words, not the one before it",
        pause: LATE_COUNTS,
        without: once("add_acquire_release(retired, 1) == tiles - 1", "add_acquire_release(retired, 1) == tiles - 2"),
        fails: &[Memory, Progress],
    },
    Guard {
        name: "a lane waits for all of its words",
        pause: LATE_COUNTS,
        without: once("have &= aggregates[first", "have = aggregates[first"),
        fails: &[Results],
    },
    Guard {
        name: "a tile waits for no word past the last",
        pause: NEVER,
        without: once("if (first + k * WARP < tiles) have &=", "have &="),
        fails: &[Progress],
    },
    Guard {
        name: "a tile's own count is not before it",
        pause: NEVER,
        without: once("if (first + k * WARP < tile) before", "if (first + k * WARP <= tile) before"),
        fails: &[Results],
    },
];

/// Outputs at odd addresses that are stored by bulk copies.
pub(super) const OF_BULK_STORES: &[Guard] = &[
    Guard {
        name: "only whole slices go out by a bulk copy",
        pause: NEVER,
        without: once("Stage::BULK && part.count == Stage::ITEMS", "Stage::BULK && part.count > 0"),
        fails: &[Outside],
    },
    Guard {
        name: "the vector in which a slice begins is not in the bulk copy",
        pause: NEVER,
        without: once("u32 first = (u64)to % SECTOR == 0 ? 2 : 1", "u32 first = 0"),
        fails: &[Outside],
    },
    Guard {
        name: "the items before the bulk copy are stored",
        pause: NEVER,
        without: once("if (lane < head) memory[lane]", "if (false) memory[lane]"),
        fails: &[Results],
    },
    Guard {
        name: "the items after the bulk copy are stored",
        pause: NEVER,
        without: once("if (lane < tail) memory[ITEMS", "if (false) memory[ITEMS"),
        fails: &[Results],
    },
    Guard {
        name: "the bulk copy begins with the vector that lies at its place",
        pause: NEVER,
        without: once("stage + first + back - 1,", "stage + first,"),
        fails: &[Results],
    },
    Guard {
        name: "a lane's last vector ends with what the next lane's begins with",
        pause: NEVER,
        without: once("back == 0 && lane == WARP - 1 ? *own : here[VECTORS]", "*own"),
        fails: &[Results],
    },
    Guard {
        name: "a lane's first vector begins with what the one before ends with",
        pause: NEVER,
        without: once("back == 1 && lane == 0 ? *own : *here", "*own"),
        fails: &[Results],
    },
];

/// Guards outside of the hand-over: ends, odd addresses, order inside a tile.
pub(super) const OF_TILES: &[Guard] = &[
    Guard {
        name: "slots past the end hold copies of an item",
        pause: NEVER,
        without: once("to[reverse ? i : part.count + i] = last;", ";"),
        fails: &[Operands],
    },
    Guard {
        name: "the first tile has no prefix without `init`",
        pause: NEVER,
        without: once("bool some = init.some || tile > 0;", "bool some = true;"),
        fails: &[Operands, Results],
    },
    Guard {
        name: "a part of a slice is stored up to its end",
        pause: NEVER,
        without: once(
            "i < part.count; i += WARP)
                part.memory[i] = from[part.at + i];",
            "i < Stage::ITEMS; i += WARP)
                part.memory[i] = from[(part.at + i) % Stage::ITEMS];",
        ),
        fails: &[Outside],
    },
    Guard {
        name: "only whole slices are stored as straddled vectors",
        pause: NEVER,
        without: once("part.count == Stage::ITEMS && part.past() > 0", "part.past() > 0"),
        fails: &[Outside],
    },
    Guard {
        name: "the vector in which a slice begins is not stored",
        pause: NEVER,
        without: once(
            "if (at > 0) to[at] = straddle(slice.vector[at - 1],",
            "to[at] = straddle(slice.vector[max(at, 1u) - 1],",
        ),
        fails: &[Outside],
    },
    Guard {
        name: "the items before the first vector are stored",
        pause: NEVER,
        without: once("if (lane < head) part.memory", "if (false) part.memory"),
        fails: &[Results],
    },
    Guard {
        name: "the items after the last vector are stored",
        pause: NEVER,
        without: once("if (lane < tail) part.memory", "if (false) part.memory"),
        fails: &[Results],
    },
    Guard {
        name: "the items before the first vector are loaded",
        pause: NEVER,
        without: once(
            "if (lane % HALF < Stage::IN_VECTOR) items",
            "if (lane % HALF < Stage::IN_VECTOR && lane >= HALF) items",
        ),
        fails: &[Results],
    },
    Guard {
        name: "the items after the last vector are loaded",
        pause: NEVER,
        without: once(
            "if (lane % HALF < Stage::IN_VECTOR) items",
            "if (lane % HALF < Stage::IN_VECTOR && lane < HALF) items",
        ),
        fails: &[Results],
    },
    Guard {
        name: "vectors of a part are loaded to where they would lie in a whole slice",
        pause: NEVER,
        without: once("(u64)part.memory - part.at * sizeof(Item)", "(u64)part.memory"),
        fails: &[Results],
    },
    Guard {
        name: "vectors are moved if they are vectors of the stage too",
        pause: NEVER,
        without: once("&& at % IN_VECTOR == 0 ?", "?"),
        fails: &[Results],
    },
    Guard {
        name: "order, from lane to lane",
        pause: NEVER,
        without: once("x = Operator::combine(earlier, x)", "x = Operator::combine(x, earlier)"),
        fails: &[Results],
    },
    Guard {
        name: "order, from the tile's prefix to its warps",
        pause: NEVER,
        without: once("Operator::combine(prefix.value, earlier)", "Operator::combine(earlier, prefix.value)"),
        fails: &[Results],
    },
    Guard {
        name: "order, from a warp's prefix to its lanes",
        pause: NEVER,
        without: once(
            "run = after<Operator>(prefix, before)",
            "run = after<Operator>(Maybe<Carry>{before, prefix.some}, prefix.value)",
        ),
        fails: &[Results],
    },
    Guard {
        name: "order, from item to item",
        pause: NEVER,
        without: once("Operator::combine(before.value, item)", "Operator::combine(item, before.value)"),
        fails: &[Results],
    },
];
