-- A first recurring job, after create.sql: sqlcmd -b -S SERVER -d DATABASE -G -i seed.sql
-- It makes the namespace `default`, and in it the schedule `tidy`: the task `tidy` of the queue
-- `default` without arguments, 10 minutes after the start of its last run, as in the preset `jobs`.
-- It is due at once. Change the names to those of your task. It is safe to run again: what is there is left
-- as it is. The same is stored by
--   app.schedules.put("tidy", every(minutes=10, anchor="start"), tidy.call())
-- but is first due after an interval.
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @ns int;
DECLARE @now bigint = holdfast.now_v1();
DECLARE @definition varchar(max) = '{"schedule":{"name":"tidy","recurrence":{"type":"every","interval":600000000,"anchor":"start","start":null},"misfire":"once","overlap":"skip","jitter":0,"catch_up":1000,"grace":60000000},"fires":{"fires":"job","task":"tidy","queue":"default","payload":"e30="}}';
DECLARE @state varchar(max) = CONCAT('{"origin":', @now, ',"next_due":', @now, ',"last_due":null,"missed":0,"skipped":0,"paused":false,"waiting":false}');
DECLARE @bytes varbinary(max) = CAST(CONCAT(@definition, @state) AS varbinary(max));
DECLARE @writes nvarchar(max) = CONCAT(
    N'[{"place":1,"name":"tidy","version":0,"mark":"seed","waits":false,"look_at":', @now,
    N',"definition_at":1,"definition_size":', DATALENGTH(@definition),
    N',"state_at":', DATALENGTH(@definition) + 1, N',"state_size":', DATALENGTH(@state), N'}]');
EXEC holdfast.namespace_v1 N'default', @ns OUTPUT;
EXEC holdfast.schedule_write_v1 @ns, NULL, NULL, NULL, @writes, NULL, NULL, @bytes, 0;
GO
