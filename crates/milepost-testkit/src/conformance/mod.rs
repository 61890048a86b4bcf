//! The rules for every store, one public function per rule. Each function takes handles on a store and panics
//! if the store breaks the rule. Each uses its own run names and tolerates other runs, so that all can run on
//! one shared database at the same time. Must not depend on a path, damage data or inspect a store's
//! internals: the store's own tests do that.

pub mod attachments;
pub mod blobs;
pub mod bodies;
pub mod concurrency;
pub mod delete;
pub mod events;
pub mod find;
pub mod items;
pub mod listing;
pub mod maintenance;
pub mod marks;
pub mod messages;
pub mod order;
pub mod record;
pub mod thread;
pub mod tokens;
pub mod write;

use milepost::store::Store;

/// Checks every rule on handles from `open`. Each call must open the same store again.
pub fn all(open: &dyn Fn() -> Box<dyn Store>) {
    crate::__each_rule!(__call_rules open);
}

/// Defines one `#[test]` per rule. Takes the path of a function without arguments that creates a new store
/// and returns a closure. Each call of the closure opens another handle on that store.
///
/// ```text
/// fn new_store() -> impl Fn() -> Box<dyn Store> {
///     let dir = tempfile::tempdir().unwrap();
///     move || Box::new(SqliteStore::open(&dir.path().join("milepost.db"), &OpenOptions::new()).unwrap())
/// }
/// milepost_testkit::conformance!(new_store);
/// ```
///
/// With `optional` before the path, the function returns `None` if this machine cannot run the store, and the
/// test does nothing. The function must print what is skipped.
///
/// With `of_one_project` before the path, the function is optional too, and its handles see one project only. Rules
/// about the runs of several projects are left out.
#[macro_export]
macro_rules! conformance {
    (of_one_project $new_store:path) => {
        $crate::__each_rule!(__test_rules (of_one_project $new_store));
    };
    (optional $new_store:path) => {
        $crate::__each_rule!(__test_rules (optional $new_store));
    };
    ($new_store:path) => {
        $crate::__each_rule!(__test_rules ($new_store));
    };
}

/// Calls a function that creates a new store: `Some` of what `open` gets.
#[doc(hidden)]
#[macro_export]
macro_rules! __new_store {
    (of_one_project $new_store:path) => {
        $new_store()
    };
    (optional $new_store:path) => {
        $new_store()
    };
    ($new_store:path) => {
        Some($new_store())
    };
}

/// The list of rules: first those that take one handle, then those that take two.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_rule {
    ($then:ident $($arg:tt)*) => {
        $crate::$then! {
            [$($arg)*]
            one {
                write::{
                    run_appears_with_its_first_commit, no_change_writes_nothing, several_puts_in_one_commit,
                    foreign_run_is_refused, duplicate_id_is_refused, duplicate_id_within_a_commit_is_refused,
                    taken_name_is_refused,
                    panic_in_the_decision_changes_nothing, unknown_runs_and_checkpoints
                }
                order::{
                    sequences_count_from_one, sequences_may_have_gaps, earlier_sequences_are_refused, earlier_stamps_are_refused,
                    sequences_are_never_used_again, stamps_grow_across_runs, stamps_grow_after_delete,
                    clock_going_back_changes_no_order
                }
                bodies::{
                    large_with_small_changes, tiny, growing, shrinking, alternating, after_dropping_the_oldest,
                    after_dropping_the_middle, after_dropping_every_second, after_dropping_all_but_the_newest,
                    after_dropping_the_newest, after_pruning_at_every_put
                }
                marks::{
                    set_with_a_put, stale_revision_is_refused, replaced_later, gone_with_the_checkpoint, oldest_stops_at_the_last_shown,
                    oldest_includes_protected_ones
                }
                items::{
                    come_in_order, are_consumed_from_the_front, survive_other_commits, are_shown_with_details,
                    consuming_more_than_shown_is_refused
                }
                messages::{are_appended_in_order, survive_other_commits, are_deleted_with_the_run, too_many_at_once_are_refused}
                events::{
                    come_in_order, continue_after_a_cursor, follow_by_cursor, unknown_and_old_cursors_are_accepted,
                    limit_takes_the_newest, are_bounded, are_bounded_in_one_commit
                }
                blobs::{
                    put_is_idempotent, contents_come_back, many_small_ones, too_large_is_refused,
                    missing_blobs_refuse_a_commit, roots_are_set_by_commits, collection_removes_what_is_not_kept,
                    failed_decision_collects_nothing, listed_in_pages, bytes_are_counted, collection_beside_savers
                }
                record::{comes_back_verbatim, may_be_large, is_rewritten_without_a_put}
                attachments::{
                    come_in_order, first_stays_unless_replaced, may_precede_the_checkpoint,
                    are_removed_with_the_checkpoint, survive_earlier_drops, are_deleted_with_the_run,
                    survive_other_commits, can_be_removed, invalid_ones_are_refused
                }
                tokens::{found_after_the_commit, not_found_after_a_refusal, belong_to_one_run}
                listing::{
                    runs_by_newest_write, runs_in_pages, runs_of_a_project, headers_in_pages, headers_across_runs,
                    positions_beyond_the_end
                }
                find::{
                    by_sequence, by_id, by_prefix, by_short_id, prefix_characters_are_literal, by_tag, by_imported_id,
                    name_finds_each_once, combined_with_paging
                }
                thread::{
                    sorted_by_id, namespaces, pages_with_ties, by_invocation, across_runs, gone_with_the_checkpoint,
                    gone_with_the_run, listed_after_every_save, characters_are_literal, invalid_ones_are_refused
                }
                delete::{removes_everything_of_a_run, refused_after_a_newer_write, leaves_other_runs_alone, frees_ids_and_tags}
                maintenance::{finds_nothing_on_a_healthy_store, keeps_all_data, retention_entries_match_headers, info_names_address_and_size}
                concurrency::{many_writers_one_run, many_writers_many_runs, readers_beside_a_pruning_writer}
            }
            two {
                tokens::{another_handle_finds_a_token}
                thread::{another_handle_lists_positions}
                attachments::{another_handle_sees_attachments}
                concurrency::{
                    two_handles_see_each_other, two_handles_one_run, two_handles_many_runs, two_handles_prune_and_read
                }
                blobs::{collection_on_another_handle, puts_are_seen_by_another_handle}
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __call_rules {
    ([$open:ident] one { $($a:ident::{$($f:ident),*})* } two { $($b:ident::{$($g:ident),*})* }) => {
        $($( $crate::conformance::$a::$f(&*$open()); )*)*
        $($( $crate::conformance::$b::$g(&*$open(), &*$open()); )*)*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __test_rules {
    ([$new_store:tt] one { $($a:ident::{$($f:ident),*})* } two { $($b:ident::{$($g:ident),*})* }) => {
        $(
            mod $a {
                #[allow(unused_imports)]
                use super::*;
                $( $crate::__test_rule!($new_store $a $f); )*
            }
        )*
        mod two_handles {
            #[allow(unused_imports)]
            use super::*;
            $($(
                #[test]
                fn $g() {
                    let Some(open) = $crate::__new_store! $new_store else { return };
                    $crate::conformance::$b::$g(&*open(), &*open());
                }
            )*)*
        }
    };
}

/// Defines the test of a rule that takes one handle.
#[doc(hidden)]
#[macro_export]
macro_rules! __test_rule {
    ((of_one_project $new_store:path) listing runs_of_a_project) => {};
    ($new_store:tt $a:ident $f:ident) => {
        #[test]
        fn $f() {
            let Some(open) = $crate::__new_store! $new_store else { return };
            $crate::conformance::$a::$f(&*open());
        }
    };
}
