# Prints what one folder of a kernel source compiles with a configuration; objects.py reads it.
# GNU make evaluates the folder's own Makefile, without the functions that call a compiler.
__count: __said
	@:
.PHONY: __count __said
srctree := $(TREE)
objtree := $(OBJECTS)
obj := $(FOLDER)
src := $(TREE)/$(FOLDER)
VPATH := $(TREE)
include $(CONFIG_FILE)
-include $(if $(wildcard $(src)/Kbuild),$(src)/Kbuild,$(src)/Makefile)
__parts = $(strip $($(1:.o=-objs)) $($(1:.o=-y)) $(if $(filter m,$(2)),$($(1:.o=-m))))
__objects = $(foreach one,$(filter %.o,$(1)),$(or $(call __parts,$(one),$(2)),$(one)))
__said:
	$(info Y $(call __objects,$(obj-y) $(lib-y),y))
	$(info M $(foreach one,$(filter %.o,$(obj-m)),$(one)=$(subst $() $(),$(__comma),$(strip $(call __objects,$(one),m)))))
	$(info D $(filter %/,$(obj-y) $(lib-y)))
	$(info E $(filter %/,$(obj-m)))
__comma := ,
