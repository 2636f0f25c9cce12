//! Patterns become variables, and types become their C++ names.

use super::Translator;
use super::syntax::{number_type, segments, ungrouped_type};
use crate::cpp::refusal;
use quote::ToTokens;
use syn::{FieldPat, Ident, Member, Pat, Path, Type};

impl Translator {
    /// Makes the argument that C++ calls `cuda` visible under the names of its pattern.
    pub(super) fn bind_argument(&mut self, cuda: &str, pattern: &Pat) {
        match pattern {
            Pat::Wild(_) => {}
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                // The parameters `p` of a predicate are constant in C++, so a mutable argument is a
                // copy.
                if name.mutability.is_some() && cuda == "p" {
                    let copy = self.names.declare(&name.ident);
                    self.line(format!("auto {copy} = {cuda};"));
                } else {
                    self.names.alias(&name.ident, cuda.to_owned());
                }
            }
            Pat::Struct(_) => self.bind(cuda, pattern),
            Pat::Paren(inner) => self.bind_argument(cuda, &inner.pat),
            Pat::Type(typed) => self.bind_argument(cuda, &typed.pat),
            other => _ = self.refuse(other, "an argument is a name, `_` or the fields of a struct"),
        }
    }

    /// Declares the variables of a pattern. `value` is the place that the pattern takes apart.
    pub(super) fn bind(&mut self, value: &str, pattern: &Pat) {
        match pattern {
            Pat::Wild(_) => {}
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                let variable = self.names.declare(&name.ident);
                let constant = if name.mutability.is_some() { "" } else { "const " };
                self.line(format!("{constant}auto {variable} = {value};"));
            }
            Pat::Struct(all) => {
                for FieldPat { member, pat, .. } in &all.fields {
                    match member {
                        Member::Named(field) => {
                            let place = self.field(value, field);
                            self.bind(&place, pat);
                        }
                        Member::Unnamed(_) => {
                            _ = self.refuse(
                                member,
                                "a tuple's fields are not in the subset; use a struct with named fields",
                            )
                        }
                    }
                }
            }
            other => _ = self.refuse(other, "a pattern is a name, `_` or the fields of a struct"),
        }
    }

    /// A field of `base`. Field names are the only names of the body that reach C++ unchanged.
    pub(super) fn field(&mut self, base: &str, name: &Ident) -> String {
        match refusal(name) {
            Some(words) => self.refuse(name, words),
            None => format!("{base}.{name}"),
        }
    }

    /// The C++ name of a type.
    pub(super) fn type_name(&mut self, ty: &Type) -> String {
        let ty = ungrouped_type(ty.clone());
        if let Some(number) = number_type(&ty) {
            return number;
        }
        let tokens = ty.to_token_stream().to_string();
        match self.types.iter().find(|(_, known)| known.to_token_stream().to_string() == tokens) {
            Some((name, _)) => name.clone(),
            None => {
                let known = self.known_structs();
                self.refuse(&ty, format!("the types that can be named here are those of numbers{known}"))
            }
        }
    }

    /// The structs that have a C++ name, as words of a message.
    fn known_structs(&self) -> String {
        let structs = self.types.iter().filter(|(_, ty)| number_type(ty).is_none());
        let mut names: Vec<String> =
            structs.map(|(_, ty)| format!(" and `{}`", ty.to_token_stream().to_string().replace(' ', ""))).collect();
        names.dedup();
        names.concat()
    }

    /// The C++ type of a struct literal with this path.
    pub(super) fn struct_name(&mut self, path: &Path) -> String {
        let plain = path.segments.iter().all(|segment| segment.arguments.is_none());
        let same = |known: &Type| match known {
            Type::Path(known) if plain => segments(&known.path) == segments(path),
            Type::Path(known) => {
                let turbofish = path.to_token_stream().to_string().replace(":: <", "<");
                known.path.to_token_stream().to_string() == turbofish
            }
            _ => false,
        };
        let mut found = self.types.iter().filter(|(_, known)| same(known));
        let Some((name, ty)) = found.next() else {
            let known = self.known_structs();
            let words = match known.as_str() {
                "" => "no struct can be named here".to_owned(),
                _ => format!("the structs that can be named here are{}", known.replacen(" and", "", 1)),
            };
            return self.refuse(path, words);
        };
        let is_other = |other: &Type| other.to_token_stream().to_string() != ty.to_token_stream().to_string();
        let (name, ambiguous) = (name.clone(), found.any(|(_, other)| is_other(other)));
        if ambiguous {
            return self.refuse(path, "two types have this name; write the type arguments, as in `Name::<f32>`");
        }
        name
    }
}
