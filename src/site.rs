//! Sites: the stream and the workspace of a builder.

use crate::memory::{View, part_to_host};
use crate::primitives::arguments::long_enough;
use crate::submit::Submit;
use crate::{Device, Error, Place, Workspace};
use cudarc::driver::CudaStream;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The site of a builder without a stream or workspace: the engine and the stream of its input.
#[derive(Clone, Copy, Debug)]
pub struct Anywhere;
/// The site of a builder on a stream of the caller's.
#[derive(Clone, Copy, Debug)]
pub struct On<'s>(pub(crate) &'s Arc<CudaStream>);
/// The site of a builder with a workspace of the caller's, on its stream.
#[derive(Debug)]
pub struct With<'w>(pub(crate) &'w mut Workspace);

/// The site `S` of a builder whose number of items lies in memory.
pub struct Counted<'c, P, S> {
    pub(crate) count: View<'c, u64>,
    pub(crate) site: S,
    pub(crate) place: PhantomData<P>,
}
impl<P, S: Clone> Clone for Counted<'_, P, S> {
    fn clone(&self) -> Self {
        Counted { count: self.count, site: self.site.clone(), place: PhantomData }
    }
}
impl<P, S: Copy> Copy for Counted<'_, P, S> {}
impl<P, S: fmt::Debug> fmt::Debug for Counted<'_, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").field("site", &self.site).finish_non_exhaustive()
    }
}

/// A site of a builder.
pub trait AnySite {
    /// Whether the number of items lies in memory.
    #[doc(hidden)]
    const IS_COUNTED: bool = false;
}
impl AnySite for Anywhere {}
impl AnySite for On<'_> {}
impl AnySite for With<'_> {}
impl<P, S> AnySite for Counted<'_, P, S> {
    const IS_COUNTED: bool = true;
}

/// A site on which a builder can run on data in the memory `P`.
pub trait Site<P: Place>: AnySite {
    #[doc(hidden)]
    fn stream(&self) -> Option<&Arc<CudaStream>>;
    #[doc(hidden)]
    fn take_workspace(&mut self) -> Option<&mut Workspace> {
        None
    }
    /// The memory of the number of items, if it lies in memory.
    #[doc(hidden)]
    fn count(&self) -> Option<View<'_, u64>> {
        None
    }
    /// The workspace and the count.
    #[doc(hidden)]
    fn take(&mut self) -> (Option<&mut Workspace>, Option<View<'_, u64>>) {
        (self.take_workspace(), None)
    }
}
impl<P: Place, S: Site<P>> Site<P> for Counted<'_, P, S> {
    fn stream(&self) -> Option<&Arc<CudaStream>> {
        self.site.stream()
    }
    /// A call that accepts `len` uses `take` instead.
    fn take_workspace(&mut self) -> Option<&mut Workspace> {
        const { assert!(!Self::IS_COUNTED, "this call does not take `.len()`") }
        None
    }
    fn count(&self) -> Option<View<'_, u64>> {
        const { assert!(!S::IS_COUNTED, "`.len()` is called twice") }
        Some(self.count)
    }
    fn take(&mut self) -> (Option<&mut Workspace>, Option<View<'_, u64>>) {
        const { assert!(!S::IS_COUNTED, "`.len()` is called twice") }
        (self.site.take().0, Some(self.count))
    }
}

/// How many of `n` items on the host a call takes.
///
/// # Errors
/// [`Error::Size`] for a count without a value.
pub(crate) fn counted(primitive: &'static str, count: Option<View<'_, u64>>, n: usize) -> Result<usize, Error> {
    let Some(count) = count else { return Ok(n) };
    long_enough(primitive, "the length", count.len(), 1)?;
    Ok(n.min(usize::try_from(count.host()[0]).unwrap_or(usize::MAX)))
}

/// The same on either engine. Waits for a count on the device.
///
/// # Errors
/// Those of [`counted`] and of [`Submit::counts`], and [`Error::Capturing`].
pub(crate) fn counted_here(
    primitive: &'static str,
    count: Option<View<'_, u64>>,
    n: usize,
    stream: Option<&Arc<CudaStream>>,
) -> Result<usize, Error> {
    let (Some(View::Device(count)), Some(stream)) = (count, stream) else { return counted(primitive, count, n) };
    Submit::new(primitive, stream).counts(Some(count))?;
    Ok(n.min(usize::try_from(part_to_host(stream, count, 0, 1)?[0]).unwrap_or(usize::MAX)))
}
impl<P: Place> Site<P> for Anywhere {
    fn stream(&self) -> Option<&Arc<CudaStream>> {
        None
    }
}
/// Memory that a stream can work on.
#[diagnostic::on_unimplemented(
    message = "a builder that is bound to a CUDA stream cannot run on `{Self}` memory",
    label = "this is `{Self}` memory",
    note = "`.on()` and `.workspace()` are for cudarc's buffers: leave them out for host data"
)]
pub trait OnDevice: Place {}
impl OnDevice for Device {}

/// The site of a builder that has neither stream nor workspace yet.
#[diagnostic::on_unimplemented(
    message = "this builder has a stream already: `.on()` and `.workspace()` exclude each other",
    label = "the second of `.on()` and `.workspace()`",
    note = "a workspace works on the stream it was made for: write `.workspace(&mut Workspace::new(&stream))` without `.on()`",
    note = "`.len()` comes after both"
)]
pub trait Unbound {}
impl Unbound for Anywhere {}

impl<P: OnDevice> Site<P> for On<'_> {
    fn stream(&self) -> Option<&Arc<CudaStream>> {
        Some(self.0)
    }
}
impl<P: OnDevice> Site<P> for With<'_> {
    fn stream(&self) -> Option<&Arc<CudaStream>> {
        Some(self.0.stream())
    }
    fn take_workspace(&mut self) -> Option<&mut Workspace> {
        Some(self.0)
    }
}

/// Writes the members that all builders have: `on`, `workspace`, `Clone`, `Copy` and the private
/// `at`, which gives the builder another site.
///
/// A builder is a struct whose last type parameter, after the semicolon, is its site, in the field
/// `site`. The other fields are in braces. The builder is `Copy` if the parameters after `where`
/// are.
macro_rules! site_methods {
    (
        impl[$($generics:tt)*] $builder:ident<$($parameter:ident),*; $site:ident> { $($field:ident),* }
        $(where $copied:ident: Copy)?
    ) => {
        impl<$($generics)*, $site> $builder<$($parameter),*, $site> {
            /// Runs on this stream, instead of the stream of the input.
            ///
            /// The stream belongs to the input's context. For data on the device only, and not
            /// together with `workspace`, which has a stream.
            pub fn on(
                self,
                stream: &::std::sync::Arc<$crate::cudarc::driver::CudaStream>,
            ) -> $builder<$($parameter),*, $crate::site::On<'_>>
            where
                $site: $crate::site::Unbound,
            {
                self.at($crate::site::On(stream))
            }

            /// Runs on the workspace's stream, with the workspace's scratch memory.
            ///
            /// After `prepare` for as many items or more, a call that writes into the caller's
            /// memory allocates nothing.
            pub fn workspace(
                self,
                workspace: &mut $crate::Workspace,
            ) -> $builder<$($parameter),*, $crate::site::With<'_>>
            where
                $site: $crate::site::Unbound,
            {
                self.at($crate::site::With(workspace))
            }

            pub(crate) fn at<At>(self, site: At) -> $builder<$($parameter),*, At> {
                let $builder { $($field,)* .. } = self;
                $builder { $($field,)* site }
            }
        }
        impl<$($generics)*, $site: Copy> Clone for $builder<$($parameter),*, $site>
        $(where $copied: Copy)?
        {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<$($generics)*, $site: Copy> Copy for $builder<$($parameter),*, $site> $(where $copied: Copy)? {}
    };
}
pub(crate) use site_methods;

/// Writes `len` for a builder, with its example. Builders are written as for `site_methods`.
macro_rules! len_method {
    (
        $(#[$example:meta])*
        impl[$($generics:tt)*] $builder:ident<$($parameter:ident),*; $site:ident> { $($field:ident),* }
    ) => {
        impl<$($generics)*, $site> $builder<$($parameter),*, $site> {
            /// Takes the number of items from memory: the first `u64` of `count`. On the device the
            /// kernel reads it, so the host need not know it.
            ///
            /// A number greater than the input's length counts as that length. Items past the number
            /// do not matter, and outputs for them are not written; in new memory their values are
            /// unspecified. The workspace is that of the whole input. So is the launch, except of scans: blocks
            /// without items return at once. A `count` of no items is [`Error::Size`](crate::Error::Size).
            ///
            /// Call `len` after [`on`](Self::on) and [`workspace`](Self::workspace). A call with
            /// `len` has kernels of its own: before a capture call `prepare` of a builder with
            /// `len` too.
            ///
            $(#[$example])*
            pub fn len<L: $crate::Place, N: $crate::Source<u64, Place = L> + ?Sized>(
                self,
                count: &N,
            ) -> $builder<$($parameter),*, $crate::site::Counted<'_, L, $site>> {
                let $builder { $($field,)* site, .. } = self;
                let site = $crate::site::Counted { count: count.view(), site, place: ::std::marker::PhantomData };
                $builder { $($field,)* site }
            }
        }
    };
}
pub(crate) use len_method;
