//! The columns of csv vector files, by kind: one that no check knows is an error, and not left out in silence.
//!
//! Not all of them are compared: some number the rows or say where they come from.

/// By name of the kind: its columns under all kernels, separated by spaces.
#[rustfmt::skip]
const COLUMNS: &[(&str, &str)] = &[
    (
        "calc_delta",
        "nice_or_idle weight inv_weight_in delta_ns calc_delta_fair other_weight lw_weight calc_delta",
    ),
    (
        "dbs_governors",
        "gov seq step table ncpu sampling_rate_us up_threshold down_threshold freq_step_pct sampling_down_factor min \
         max wall_us idle_us cur_before cur_after load_prev_load_per_cpu idle_periods max_sample_load \
         rate_mult_or_down_skip requested_freq",
    ),
    (
        "effective_util",
        "case uclamp_used cap util_cfs_arg rt dl dl_running_bw irq rt_nr uc_min uc_max uc_idle p_present p_uc_min \
         p_uc_max out_frequency_util out_energy_util out_util out_min out_max perf_actual_in perf_out",
    ),
    (
        "fair",
        "seq step now_ns cpu op task a1 a2 curr need_resched rq_nr_running cfs_load_weight cfs_nr \
         buddies_next_last_skip min_vruntime unused1 unused2 rq_clock rq_clock_task rq_clock_pelt lost_idle \
         cpufreq_calls c_lut c_load_sum c_runnable_sum c_util_sum c_pc c_load_avg c_runnable_avg c_util_avg c_util_est \
         c_removed t_cpu t_on_rq se_on_rq se_delayed se_rel_deadline se_weight vruntime deadline vlag slice exec_start \
         sum_exec t_lut t_load_sum t_runnable_sum t_util_sum t_pc t_load_avg t_runnable_avg t_util_avg t_util_est \
         cfs_h_nr_delayed zero_vruntime sum_wkey sum_w",
    ),
    (
        "freq_table",
        "case order table_khz:flag efficiencies_available min max target idx_L idx_H idx_C idx_LE resolved_LE_khz",
    ),
    (
        "idle_governor",
        "gov hz table seq step clock_sel_ns sleep_length_ns delta_tick_ns tick_stopped latency_req_ns disable_mask \
         iowaiters sel_idx sel_stop_tick timer_queried rnd_u32 clock_refl_ns last_residency_ns entered_idx \
         poll_time_limit got_tick state_after_select",
    ),
    (
        "pelt_attach_detach",
        "case op pc c_util_avg c_util_sum c_load_avg c_load_sum c_runnable_avg c_runnable_sum se_weight_raw s_util_avg \
         s_util_sum s_load_avg s_load_sum s_runnable_avg s_runnable_sum o_c_util_avg o_c_util_sum o_c_load_avg \
         o_c_load_sum o_c_runnable_avg o_c_runnable_sum o_s_util_sum o_s_load_sum o_s_runnable_sum",
    ),
    (
        "pelt_clock",
        "seq step delta_ns irq_ns cpu_cap freq_cap switch cfs_util_sum rt_util_sum dl_util_sum clock clock_task \
         clock_pelt lost_idle_time rq_clock_pelt clock_idle clock_pelt_idle",
    ),
    (
        "pelt_decay",
        "hl val n out",
    ),
    (
        "pelt_irq",
        "seq step clock_ns irq_running_ns cpu_cap freq_cap ret last_update_time load_sum runnable_sum util_sum \
         period_contrib load_avg runnable_avg util_avg",
    ),
    (
        "pelt_segments",
        "hl periods d1 d3 contrib",
    ),
    (
        "pelt_sum",
        "hl mode seq step now_ns load runnable running avg_load_arg ret last_update_time load_sum runnable_sum \
         util_sum period_contrib load_avg runnable_avg util_avg",
    ),
    (
        "post_init",
        "case cpu_cap weight_scaled cfs_util_avg cfs_load_avg util_avg runnable_avg load_avg",
    ),
    (
        "prio_weights",
        "nice weight wmult",
    ),
    (
        "util_est",
        "case task_sleep cpu_cap util_avg enqueued_in ewma_in cfs_enqueued_in enqueued_out ewma_out cfs_after_enqueue \
         cfs_after_dequeue task_util_est_fn runnable_avg task_util_est_in cfs_util_est_in task_util_est_out",
    ),
];

/// Refuses a file whose header has a column that its kind does not know. Other files than csv have no header.
pub fn check(kind: &str, text: &str) -> Result<(), String> {
    let (Some((_, known)), Some(header)) = (COLUMNS.iter().find(|(name, _)| *name == kind), text.lines().next()) else {
        return Ok(());
    };
    match header.split(',').find(|column| !known.split(' ').any(|k| k == *column)) {
        Some(column) => Err(format!("line 1: no check of {kind} knows the column `{column}`; take it out of the file")),
        None => Ok(()),
    }
}
