//! Sites: the stream and the workspace of a builder.

use crate::{Device, Place, Workspace};
use cudarc::driver::CudaStream;
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

/// A site on which a builder can run on data in the memory `P`.
pub trait Site<P: Place> {
    #[doc(hidden)]
    fn stream(&self) -> Option<&Arc<CudaStream>>;
    #[doc(hidden)]
    fn take_workspace(&mut self) -> Option<&mut Workspace> {
        None
    }
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
    note = "a workspace works on the stream it was made for: write `.workspace(&mut Workspace::new(&stream))` without `.on()`"
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
            /// For data on the device only, and not together with `workspace`.
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
