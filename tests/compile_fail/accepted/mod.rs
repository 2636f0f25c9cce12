//! The twins of what is refused. They are compiled, and do not run.
#![allow(dead_code)]

macro_rules! accepted {
    ($($name:ident)*) => {
        $( mod $name; )*
        pub(super) const NAMES: &[&str] = &[$(concat!(stringify!($name), ".rs")),*];
    };
}
accepted! {
    bitwise_operator_on_floats body_that_compares_structs body_with_a_field_that_cpp_has
    body_with_a_function body_with_a_literal_of_no_type body_with_a_match
    body_with_a_method_on_f16 body_with_a_method_that_is_not_translated
    body_with_a_struct_of_no_name body_with_an_operand_that_assigns code_by_hand_without_unsafe
    code_of_another_operator device_input_and_host_output element_with_a_field_that_is_none
    element_with_a_keyword element_with_names_that_cpp_has element_with_padding
    flags_in_another_place host_input_and_device_output immutable_output memory_of_another_type
    not_an_element nothing_said_of_what_is_kept operator_of_unknown_associativity
    operator_out_of_order operator_with_another_identity predicate_of_another_type
    predicate_with_a_constant predicate_without_its_parameters read_only_view
    segments_in_another_place shared_output stream_after_workspace stream_over_host_data
    struct_that_is_no_element text_of_a_lift_without_unsafe text_of_a_predicate_without_unsafe
    text_without_unsafe workspace_after_stream workspace_over_host_data workspace_used_twice
}
