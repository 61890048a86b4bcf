//! The PostgreSQL store of Milepost.

pub mod connection;
