"""What is measured: functions that run in a process of their own and give figures."""
