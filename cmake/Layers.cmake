# SPDX-License-Identifier: LGPL-2.1-or-later
# Each build checks which layer includes which (cmake/layers.txt).

set(mountd_layers_stamp ${PROJECT_BINARY_DIR}/check-layers.stamp)
file(GLOB_RECURSE mountd_layers_files CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/mountd/*.cc ${PROJECT_SOURCE_DIR}/mountd/*.h
     ${PROJECT_SOURCE_DIR}/propagation/*.cc ${PROJECT_SOURCE_DIR}/propagation/*.h
     ${PROJECT_SOURCE_DIR}/netns/*.cc ${PROJECT_SOURCE_DIR}/netns/*.h
     ${PROJECT_SOURCE_DIR}/csi-node/*.cc ${PROJECT_SOURCE_DIR}/csi-node/*.h
     ${PROJECT_SOURCE_DIR}/dbus/*.cc ${PROJECT_SOURCE_DIR}/dbus/*.h
     ${PROJECT_SOURCE_DIR}/agent/*.cc ${PROJECT_SOURCE_DIR}/agent/*.h)
add_custom_command(
  OUTPUT ${mountd_layers_stamp}
  COMMAND ${PROJECT_SOURCE_DIR}/cmake/check-layers ${PROJECT_SOURCE_DIR}
  COMMAND ${CMAKE_COMMAND} -E touch ${mountd_layers_stamp}
  DEPENDS ${PROJECT_SOURCE_DIR}/cmake/check-layers
          ${PROJECT_SOURCE_DIR}/cmake/layers.txt ${mountd_layers_files}
  COMMENT "Checking who includes what"
  VERBATIM)
add_custom_target(check-layers ALL DEPENDS ${mountd_layers_stamp})
