//! `criterion`: how a criterion of success stands.

use milepost::model::{CriterionChange, CriterionStatus};

use crate::config::word;
use crate::context::{Context, Target};
use crate::error::CommandError;
use crate::present::saved::Changed;

/// Say how a criterion of success stands
///
/// It is durable when the command returns, and part of the next checkpoint.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost criterion set tests pending --subject \"all tests pass\"\n  \
                        milepost criterion set tests completed")]
pub(crate) struct CriterionArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Say how it stands
    #[command(after_help = "Examples:\n  milepost criterion set tests completed")]
    Set {
        /// The criterion
        #[arg(value_name = "ID")]
        id: String,
        /// How it stands: pending, in_progress or completed
        #[arg(value_name = "STATUS")]
        status: String,
        /// What has to be true
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        subject: Option<String>,
    },
}

pub(crate) fn run(args: CriterionArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let What::Set { id, status, subject } = args.what;
    let status: CriterionStatus = word(&status, "the criterion's status", "/criteria/status")?;
    let waits = serde_json::json!({ "id": id, "status": status, "subject": subject });
    let change = CriterionChange { subject, ..CriterionChange::new(&id, status) };
    let applied = context.apply(vec![change.into()], &Target::CurrentOrNew)?;
    let read = |mp: &milepost::Milepost| mp.run_detail(&applied.run).ok()?.summary.record.ok();
    let record = applied.mp.as_ref().filter(|_| context.output.json).and_then(read);
    let stands = record.and_then(|record| record.working.criteria.into_iter().find(|c| c.id == id));
    let what = match stands {
        Some(criterion) => serde_json::json!({ "criterion": criterion }),
        None => serde_json::json!({ "criterion": waits }),
    };
    Changed { schema: "milepost.criterion/1", applied: &applied, what }.present(context.output)
}
