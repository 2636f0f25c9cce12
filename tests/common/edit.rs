//! The templates as one text that a test may edit before it compiles them.

/// The templates joined, without their includes of each other.
pub fn one_text(templates: &[&str]) -> String {
    let is_kept = |line: &&str| !line.starts_with("#include") && !line.starts_with("#pragma once");
    templates.iter().flat_map(|text| text.split_inclusive('\n').filter(is_kept)).collect()
}

/// An edit of the templates: `by` replaces `piece`, which must occur `times` times.
#[derive(Clone, Copy)]
pub struct Edit {
    times: usize,
    piece: &'static str,
    by: &'static str,
}

/// An edit of a piece that occurs once.
pub const fn once(piece: &'static str, by: &'static str) -> Edit {
    Edit { times: 1, piece, by }
}

/// An edit of a piece that occurs twice.
pub const fn twice(piece: &'static str, by: &'static str) -> Edit {
    Edit { times: 2, piece, by }
}

impl Edit {
    /// # Panics
    /// If the piece does not occur that often: the templates have changed, and the edit must
    /// follow.
    pub fn apply(&self, text: &str) -> String {
        let Edit { times, piece, by } = self;
        assert_eq!(text.matches(piece).count(), *times, "the templates are not what the test alters: {piece}");
        text.replace(piece, by)
    }
}
